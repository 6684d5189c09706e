"""The ground of one test session: a folder in which all its servers live.

Every process of the session holds a lock on ``users`` in it. The reaper waits for that lock, which the kernel gives it
when the last of them has ended, or was killed: so no server is left running, and none is ended that is in use.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tests.servers import binaries, reaper
from tests.servers.server import ADMIN, DATABASE, ROLE, Bouncer, Server, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator


MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
ROOM = 2 << 30


def in_memory() -> str | None:
    """Memory's own file system, if there is room for a session's servers.

    Making, copying and removing a cluster there takes a tenth of the time. What a killed server keeps is the same: the
    pages it has written belong to the kernel. Only how long a commit takes is not measured there.
    """
    return str(MEMORY) if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM else None


class Ground:
    """The servers of this session. Processes that name the same meeting place are one session."""

    def __init__(self, meeting: Path, version: int | None = None, *, within: str | None = None) -> None:
        """Join the session, or be its first process.

        Args:
            meeting: a folder that all processes of the session know.
            version: the PostgreSQL wanted; the newest there is by default.
            within: where the servers' folder is made; in memory by default, where there is room.
        """
        self.meeting = meeting
        self._within = within or in_memory()
        with self.alone():
            self.folder, self._users = self._joined() or self._founded()
            self.programs = binaries.within_reach(binaries.postgres(version), self.folder)

    def leave(self) -> None:
        """Need the servers no more."""
        self._users.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only process of the session in here."""
        with (self.meeting / "servers.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _joined(self) -> tuple[Path, TextIO] | None:
        try:
            folder = Path((self.meeting / "servers").read_text())
            users = (folder / "users").open("r+")
        except FileNotFoundError:
            return None
        try:
            fcntl.lockf(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # the reaper has it
            users.close()
            return None
        return folder, users

    def _founded(self) -> tuple[Path, TextIO]:
        # Not under the meeting place: that is closed to all but one user, and its path too long for a socket's.
        folder = Path(tempfile.mkdtemp(prefix="perdure-servers-", dir=self._within)).resolve()
        folder.chmod(0o711)
        users = (folder / "users").open("w+")
        fcntl.lockf(users, fcntl.LOCK_SH)
        (self.meeting / "servers").write_text(str(folder))
        subprocess.run([sys.executable, "-I", reaper.__file__, folder], check=True)
        return folder, users

    def make(self, name: str) -> Path:
        """A new folder, which belongs to whom the servers run as."""
        home = self.folder / name
        home.mkdir()
        home.chmod(0o755)
        if user := binaries.user():
            shutil.chown(home, user["user"], user["group"])
        return home

    @contextmanager
    def own(self) -> Iterator[Own]:
        """Servers that end with the block."""
        with ExitStack() as ends:
            yield Own(self, ends)

    def shared(self) -> Server:
        """The server that all tests of the session share, started by whoever needs it first."""
        with self.alone():
            running = self.folder / "shared.port"
            if running.exists():
                return Server(self.folder / "shared", self.programs, int(running.read_text()))
            server = self.fresh("shared")
            server.start()
            running.write_text(str(server.port))
            return server

    def fresh(self, name: str, **options: Any) -> Server:
        """A new server with an empty cluster, not yet started."""
        server = Server(self.make(name), self.programs, free_port())
        binaries.run("cp", "-R", self._template(), server.data)
        server.configure(**options)
        return server

    def _template(self) -> Path:
        """A cluster to copy: with an administrator, and a role that may make schemas and nothing else."""
        data = self.folder / "template" / "data"
        if not data.exists():
            self.make("template")
            self.programs.run(
                "initdb",
                "-D",
                data,
                f"--username={ADMIN}",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            )
            grant = f"CREATE ROLE {ROLE} LOGIN;\nGRANT CREATE ON DATABASE {DATABASE} TO {ROLE};\n"
            self.programs.run("postgres", "--single", "-F", "-D", data, DATABASE, input=grant)
        return data


class Own:
    """Servers for one purpose. Each is started when it is returned; all are gone at the end, with their data."""

    def __init__(self, ground: Ground, ends: ExitStack) -> None:
        self._ground = ground
        self._ends = ends

    def server(self, **options: Any) -> Server:
        """A server with an empty cluster; options as those of `Server.configure`."""
        with self._ground.alone():
            server = self._ground.fresh(_name("server"), **options)
        self._ends.callback(server.destroy)
        server.start()
        return server

    def standby(self, primary: Server, *, synchronous: bool = True) -> Server:
        """A server that follows another and has caught up with it."""
        standby = Server(self._ground.make(_name("standby")), self._ground.programs, free_port())
        self._ends.callback(standby.destroy)
        standby.follow(primary, synchronous=synchronous)
        return standby

    def bouncer(self, server: Server, **options: Any) -> Bouncer:
        """A pooler in front of a server."""
        bouncer = Bouncer(self._ground.make(_name("bouncer")), server, **options)
        self._ends.callback(bouncer.stop)
        bouncer.start()
        return bouncer


def _name(kind: str) -> str:
    return f"{kind}_{os.urandom(4).hex()}"
