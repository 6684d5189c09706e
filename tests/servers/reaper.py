"""A process that outlives the tests by a moment: it ends their servers when the last of their processes is gone.

``python reaper.py FOLDER`` returns at once and leaves it behind. It needs nothing but Python, since it is a program.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 5.0


def alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has asked for its exit code does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, PermissionError):
        return not Path("/proc/self/stat").exists()  # no such file system here, or no such process any more
    except ProcessLookupError:
        return False


def gone(*pids: int, within: float = PATIENCE) -> bool:
    """Wait until none of these processes runs."""
    return eventually(lambda: not any(alive(pid) for pid in pids), within)


def eventually(condition: Callable[[], bool], within: float = PATIENCE) -> bool:
    """Ask what has no bell until it is so, or so many seconds have passed."""
    deadline = time.monotonic() + within  # noqa: TID251 - other processes' time
    while not condition():
        if time.monotonic() > deadline:  # noqa: TID251 - as above
            return False
        time.sleep(0.005)
    return True


def servers(folder: Path) -> list[int]:
    """The processes that have left their pid in this folder and still run in it."""
    pids = []
    for file in folder.rglob("*.pid"):
        first = file.read_text().partition("\n")[0]
        if first.isdigit() and alive(int(first)) and _works_in(folder, int(first)):
            pids.append(int(first))
    return pids


def _works_in(folder: Path, pid: int) -> bool:
    link = Path(f"/proc/{pid}/cwd")
    return not Path("/proc/self/cwd").exists() or folder in [link.resolve(), *link.resolve().parents]


def clear(folder: Path) -> None:
    """End every server in the folder, and remove it."""
    for number in (signal.SIGQUIT, signal.SIGKILL):
        pids = servers(folder)
        for pid in pids:
            os.kill(pid, number)
        if gone(*pids):
            break
    shutil.rmtree(folder, ignore_errors=True)


def main(folder: Path) -> None:
    """Wait until the last user is gone, then clear the folder away."""
    if os.fork():
        os._exit(0)
    os.setsid()
    with (folder / "users").open("r+") as users:
        fcntl.lockf(users, fcntl.LOCK_EX)
        clear(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
