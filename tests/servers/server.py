"""A PostgreSQL server that tests start, stop, kill, cut off and promote."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlencode

import psycopg

from tests.servers import binaries
from tests.servers.reaper import eventually, gone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.binaries import Programs

PATIENCE = 30.0
DATABASE = "postgres"
ROLE, ADMIN = "app", "admin"

Mode = Literal["smart", "fast", "immediate"]


def free_port() -> int:
    """A port of loopback that nobody has.

    It lies below those that the kernel gives to clients: one that connects to such a port while nobody listens there
    may be given that very port, and be connected to itself.
    """
    while True:
        port = random.randrange(15_000, 32_000)  # noqa: S311 - not for secrets
        with closing(socket.socket()) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def address(
    ports: Sequence[int],
    *,
    host: str = "127.0.0.1",
    role: str = ROLE,
    database: str = DATABASE,
    **query: str | None,
) -> str:
    """The URL of a database; ports beyond the first are tried when those before do not answer."""
    hosts = ",".join(f"{host}:{port}" for port in ports)
    asked = urlencode({name: value for name, value in query.items() if value is not None}, quote_via=quote)
    return f"postgresql://{role}@{hosts}/{database}" + (f"?{asked}" if asked else "")


class Server:
    """One cluster, with the process that serves it."""

    def __init__(self, home: Path, programs: Programs, port: int) -> None:
        self.home = home
        self.data = home / "data"
        self.programs = programs
        self.port = port

    def configure(self, *, listen: str = "127.0.0.1", **settings: object) -> None:
        """Say how it is to run from its next start on.

        Args:
            listen: the addresses it listens on, with commas between; who is on their networks may come in.
            settings: as in postgresql.conf.
        """
        lines = {
            "listen_addresses": listen,
            "port": self.port,
            "unix_socket_directories": self.home,
            "shared_buffers": "64MB",
            "max_connections": 200,
            "dynamic_shared_memory_type": "mmap",  # in its folder, so that a killed server leaves none behind
            "max_wal_size": "1GB",
            "recovery_init_sync_method": "syncfs" if sys.platform == "linux" else "fsync",
            "hot_standby": "on",
            "timezone": "UTC",
            "log_line_prefix": "%m [%p] %a ",
            **settings,
        }
        text = "".join(f"{name} = '{value}'\n" for name, value in lines.items())
        (self.data / "postgresql.conf").write_text(text)
        kinds = ("local all all trust", "host all all samenet trust", "host replication all samenet trust")
        (self.data / "pg_hba.conf").write_text("\n".join(kinds) + "\n")

    # -- its life

    def start(self) -> None:
        """Start it, and wait until it can be asked."""
        self._control("start", "-w", "-l", self.log_file, "-t", int(PATIENCE))

    def stop(self, mode: Mode = "fast") -> None:
        """Stop it: ``smart`` waits for clients, ``fast`` turns them out, ``immediate`` leaves as in a crash."""
        if self.pid is not None:
            self._control("stop", "-w", "-m", mode, "-t", int(PATIENCE))

    def restart(self, mode: Mode = "fast") -> None:
        """Stop it and start it again."""
        self.stop(mode)
        self.start()

    def kill_hard(self) -> None:
        """SIGKILL the server and all its processes, and wait until they are gone."""
        pid = self.pid
        assert pid is not None, "there is no server to kill"
        os.kill(pid, signal.SIGSTOP)  # so that it has no further children while they are counted
        pids = [pid, *children(pid)]
        for one in pids:
            _kill(one)
        assert gone(*pids), "a killed server does not end"
        self._tidy()

    def _tidy(self) -> None:
        """Remove what a killed server leaves and the next start would take for signs of life.

        They name its process, whose number may be another's by then, or its own as long as nobody has waited for it.
        """
        pid_file = self.data / "postmaster.pid"
        memory = pid_file.read_text().splitlines()[6].split()[1]
        subprocess.run(["ipcrm", "-m", memory], check=True)  # noqa: S607 - the system's
        for file in (pid_file, *self.home.glob(".s.PGSQL.*")):
            file.unlink()

    def destroy(self) -> None:
        """End it, whatever state it is in, and remove its data."""
        if self.pid is not None:
            self.kill_hard()
        shutil.rmtree(self.home)

    def promote(self) -> None:
        """Have a standby go on as a primary."""
        with self.connect() as connection:
            assert connection.execute("SELECT pg_promote(true, %s)", [int(PATIENCE)]).fetchone() == (True,)

    def reload(self, **settings: str) -> None:
        """Change settings of a running server."""
        with self.connect() as connection:
            for name, value in settings.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            connection.execute("SELECT pg_reload_conf()")

    def follow(self, primary: Server, *, synchronous: bool = True) -> None:
        """Become a standby of a running server, start, and wait until it has caught up.

        Args:
            primary: whom to follow; with ``synchronous`` it acknowledges no commit any more that the standby has not.
            synchronous: whether it is.
        """
        name = self.home.name
        source = f"{primary.admin_url()}?application_name={name}"
        self.programs.run("pg_basebackup", "-D", self.data, "-d", source, "-R", "-X", "stream", "-c", "fast", "-N")
        self.configure()
        self.start()
        if synchronous:
            primary.reload(synchronous_standby_names=name)
        caught_up = (
            "SELECT FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming' AND sync_state = %s"
        )
        state = [name, "sync" if synchronous else "async"]
        with primary.connect() as connection:
            assert eventually(lambda: connection.execute(caught_up, state).fetchone() is not None, PATIENCE)

    def _control(self, *arguments: object) -> None:
        try:
            self.programs.run("pg_ctl", *arguments, "-D", self.data, cwd=self.data)
        except AssertionError as error:
            error.add_note(self.log())
            raise

    # -- what it is

    @property
    def pid(self) -> int | None:
        """The server's process; None if it does not run."""
        try:
            return int((self.data / "postmaster.pid").read_text().split()[0])
        except FileNotFoundError:
            return None

    @property
    def pids(self) -> list[int]:
        """The server's process and all that it has started; none if it does not run."""
        pid = self.pid
        return [] if pid is None else [pid, *children(pid)]

    @property
    def log_file(self) -> Path:
        """Where it writes what happens."""
        return self.home / "server.log"

    def log(self) -> str:
        """What it has logged."""
        return self.log_file.read_text() if self.log_file.exists() else ""

    def url(self, schema: str | None = None, *others: Server, **query: str) -> str:
        """Where clients find it, as a role that may make schemas and nothing else.

        Args:
            schema: the schema of a store.
            others: servers to try when this one does not answer.
            query: further options of a connection.
        """
        return address([self.port, *(other.port for other in others)], schema=schema, **query)

    def admin_url(self) -> str:
        """Where its administrator finds it."""
        return address([self.port], role=ADMIN)

    def connect(self) -> psycopg.Connection[Any]:
        """Connect as its administrator; every statement is a transaction."""
        return psycopg.connect(self.admin_url(), autocommit=True)

    def terminate_backends(self) -> int:
        """End all sessions of clients; returns how many there were."""
        with self.connect() as connection:
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            return sum(row[0] for row in ended)


def children(pid: int) -> list[int]:
    """The processes that this one has started and that still run."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(["pgrep", "-P", str(pid)], check=False, capture_output=True, text=True)  # noqa: S607
        return [int(word) for word in listed.stdout.split()]
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid:
            found.append(int(stat.parent.name))
    return found


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _listens(port: int) -> bool:
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


class Bouncer:
    """PgBouncer in front of a server: sessions of the server are lent for one transaction at a time."""

    def __init__(self, home: Path, server: Server, *, pool: int = 20) -> None:
        self.home = home
        self.port = free_port()
        self.config = home / "pgbouncer.ini"
        self.config.write_text(f"""\
[databases]
* = host=127.0.0.1 port={server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir = {home}
auth_type = trust
auth_file = {home}/users.txt
admin_users = {ADMIN}
pool_mode = transaction
default_pool_size = {pool}
max_client_conn = 300
ignore_startup_parameters = extra_float_digits
server_login_retry = 0.2
logfile = {home}/pgbouncer.log
pidfile = {home}/pgbouncer.pid
""")
        (home / "users.txt").write_text(f'"{ROLE}" ""\n"{ADMIN}" ""\n')

    def start(self) -> None:
        """Start it; it can be asked when this returns."""
        binaries.run(binaries.bouncer(), "-q", "-d", self.config, cwd=self.home)
        # It leaves for the background before it listens.
        assert eventually(lambda: _listens(self.port)), (self.home / "pgbouncer.log").read_text()

    def stop(self) -> None:
        """Stop it at once; its clients lose their connections."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            assert gone(pid), "PgBouncer does not end"

    @property
    def pid(self) -> int | None:
        """Its process; None if it does not run."""
        try:
            return int((self.home / "pgbouncer.pid").read_text())
        except FileNotFoundError:
            return None

    def url(self, schema: str | None = None, **query: str) -> str:
        """Where clients find it."""
        return address([self.port], schema=schema, **query)

    def connect(self) -> psycopg.Connection[Any]:
        """Connect through it to the server, as an ordinary role."""
        return psycopg.connect(self.url(), autocommit=True, prepare_threshold=None)
