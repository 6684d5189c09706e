"""What else in this process could corrupt an open store: a second SQLite library, and a fork.

A process's POSIX locks on a file are all dropped when it closes any descriptor of that file. SQLite's own library
knows and avoids it, but a second copy of the library (the standard library's ``sqlite3``) knows nothing of the
first: opening and closing a store with it lets other processes write into running transactions.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, NoReturn, Protocol
from urllib.parse import unquote

from perdure.errors import StoreUnsafe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_lock = threading.Lock()
_open: dict[tuple[int, int], int] = {}
"""How many connections this process has to each file, by (device, inode)."""
_installed = False


def identity(path: str | bytes | Path) -> tuple[int, int] | None:
    """Return what tells a file from every other one; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - bytes are paths too
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def is_open(path: Path) -> bool:
    """Whether this process has a connection to the file."""
    return identity(path) in _open


def protect(file: tuple[int, int]) -> None:
    """From now on refuse a second SQLite library on the file."""
    global _installed  # noqa: PLW0603 - a hook can be installed once and never removed
    with _lock:
        _open[file] = _open.get(file, 0) + 1
        if not _installed:
            _installed = True
            sys.addaudithook(_audit)


def unprotect(file: tuple[int, int]) -> None:
    """Take back one ``protect``."""
    with _lock:
        left = _open.get(file, 0) - 1
        if left > 0:
            _open[file] = left
        else:
            _open.pop(file, None)


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if event == "sqlite3.connect" and _open:
        _check(arguments[0])


def _check(target: object) -> None:
    if not isinstance(target, str | bytes | os.PathLike):
        return
    name = os.fsdecode(target)
    if name == ":memory:" or not name:
        return
    candidates = [name]
    if name.startswith("file:"):
        path = unquote(name[5:].partition("?")[0].partition("#")[0])
        candidates.append("/" + path.lstrip("/") if path.startswith("//") else path)
    for candidate in candidates:
        if identity(candidate) in _open:
            raise StoreUnsafe(
                f"{name} is open as a Perdure store: the sqlite3 module would drop its locks and corrupt it",
                store=name,
                advice="read it through Perdure, or from another process",
            )


# -- fork ----------------------------------------------------------------------------------------


class Handle(Protocol):
    """Something that holds a connection."""

    path: Path

    def pause(self) -> bool:
        """Close the connection and keep everybody off it; False if it is in use."""
        ...

    def go_on(self) -> None:
        """Let it be used (and opened) again."""
        ...


_handles: weakref.WeakSet[Handle] = weakref.WeakSet()
_paused: list[Handle] = []
_inherited: set[tuple[int, int]] = set()
"""Files to which this process, a forked child, has inherited connections that were in use."""
_after_fork: list[Callable[[], None]] = []


def keep_through_fork(handle: Handle) -> None:
    """Pause ``handle`` while the process forks; if it cannot be paused, never let the child close it.

    SQLite keeps account of its locks per process. A child in which connections to a file are open takes locks for
    held that are its parent's, so it would use the file unprotected, and at exit it would act on transactions that
    are not its own. Hence no connection is open during a fork, if that can be had within a moment.
    """
    _handles.add(handle)


def was_inherited(path: Path) -> bool:
    """Whether this process was forked while the file was in use."""
    return bool(_inherited) and identity(path) in _inherited


def _before() -> None:
    _paused.extend(handle for handle in list(_handles) if handle.pause())


def _in_parent() -> None:
    while _paused:
        _paused.pop().go_on()


def call_after_fork(function: Callable[[], None]) -> None:
    """Call ``function`` in every forked child."""
    _after_fork.append(function)


def _in_child() -> None:
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it
    _lock = threading.Lock()
    for handle in list(_handles):
        if handle not in _paused and (file := identity(handle.path)) is not None:
            _inherited.add(file)
        # One reference that nobody gives back: neither garbage collection nor the interpreter's end frees it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
    _paused.clear()
    _open.clear()
    for function in _after_fork:
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


def refuse_inherited(store: str) -> NoReturn:
    """Refuse to open a store that was in use when this process was forked.

    Raises:
        StoreUnsafe: always.
    """
    raise StoreUnsafe(
        f"this process was forked while the store was in use: {store}",
        store=store,
        advice="close the store before the fork, or start processes with the 'spawn' or 'forkserver' method",
    )


def refuse_fork(store: str) -> NoReturn:
    """Refuse the use of a store in a process that only inherited it.

    Raises:
        StoreUnsafe: always.
    """
    raise StoreUnsafe(
        f"this store was opened before a fork: {store}",
        store=store,
        advice="re-open it after the fork, in the child; or start processes with the 'spawn' method",
    )
