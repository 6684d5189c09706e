"""SQLite's file system, and Python's own calls, with everything noted that happens to the files of one folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Any

import apsw
import pytest

from tests.power.record import Link, Operation, Record, Resize, Sync, SyncNames, Unlink, Write

LOGS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
PASSED_OVER = ("-shm", "-lock")
"""Memory and locks that happen to have a file: after a reboot both are worth nothing."""

_numbers = count(1)


class Recorder:
    """Notes what happens to the files of a folder, which it finds as they are.

    Attributes:
        record: what it has noted.
        vfs: the name of SQLite's file system that notes.
    """

    def __init__(self, folder: Path, *, deaf_to: int = 0) -> None:
        """Begin to note.

        Args:
            folder: what the disk is.
            deaf_to: files whose syncs are not done: flags of SQLite's, as they are opened with.
        """
        self.folder = folder.resolve()
        self.record = Record()
        self.deaf_to = deaf_to
        self.lock = RLock()
        self._files = count(1)
        self._names: dict[str, int | None] = {}
        self._descriptors: dict[int, str] = {}
        for path in sorted(self.folder.rglob("*")):
            if (name := self.name(path)) is not None:
                file = self._names[name] = None if path.is_dir() else next(self._files)
                self.record.names[name] = file
                if file is not None:
                    self.record.files[file] = path.read_bytes()
        self.vfs = f"perdure-power-{next(_numbers)}"

    def name(self, path: object) -> str | None:
        """What a path is called on the disk; None if it is not on it, or nothing that would have to last."""
        if not isinstance(path, str | os.PathLike):
            return None
        text = os.fspath(path)
        if not isinstance(text, str) or text.endswith(PASSED_OVER):
            return None
        absolute = Path(text).absolute()
        return str(absolute.relative_to(self.folder)) if absolute.is_relative_to(self.folder) else None

    def note(self, operation: Operation) -> None:
        """Append one."""
        self.record.operations.append(operation)

    def opened(self, name: str) -> int:
        """Return the number of a file that was opened, and note its name if it was made by that."""
        file = self._names.get(name)
        if file is None:
            file = self._names[name] = next(self._files)
            self.note(Link(name, file))
        return file

    def removed(self, name: str) -> None:
        """Note that a name is gone."""
        if self._names.pop(name, None) is not None:
            self.note(Unlink(name))

    # -- what Python does itself

    def open(self, real: Callable[..., int], path: Any, flags: int, *rest: Any, **more: Any) -> int:
        """See ``os.open``."""
        with self.lock:
            descriptor = real(path, flags, *rest, **more)
            name = self.name(path)
            if name is not None:
                self._descriptors[descriptor] = name
                if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    self.opened(name)
            return descriptor

    def close(self, real: Callable[[int], None], descriptor: int) -> None:
        """See ``os.close``."""
        with self.lock:
            self._descriptors.pop(descriptor, None)
            real(descriptor)

    def pwrite(self, real: Callable[[int, bytes, int], int], descriptor: int, data: bytes, offset: int) -> int:
        """See ``os.pwrite``."""
        with self.lock:
            written = real(descriptor, data, offset)
            if (name := self._descriptors.get(descriptor)) is not None:
                self.note(Write(self.opened(name), offset, bytes(data[:written])))
            return written

    def fsync(self, real: Callable[[int], None], descriptor: int) -> None:
        """See ``os.fsync``."""
        with self.lock:
            real(descriptor)
            name = self._descriptors.get(descriptor)
            if name is not None:
                is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
                self.note(SyncNames(name) if is_directory else Sync(self.opened(name)))

    def mkdir(self, real: Callable[..., None], path: Any, *rest: Any, **more: Any) -> None:
        """See ``os.mkdir``."""
        with self.lock:
            real(path, *rest, **more)
            if (name := self.name(path)) is not None:
                self._names[name] = None
                self.note(Link(name, None))


class _Vfs(apsw.VFS):
    """What SQLite asks of a file system, done by its own and noted."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._base = "unix"
        super().__init__(recorder.vfs, self._base)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        recorder = self._recorder
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        called = recorder.name(path)
        if called is None:
            return apsw.VFSFile(self._base, name, flags)
        with recorder.lock:
            return _File(recorder, called, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        recorder = self._recorder
        with recorder.lock:
            super().xDelete(filename, syncdir)
            if (name := recorder.name(filename)) is not None:
                recorder.removed(name)
                if syncdir:
                    recorder.note(SyncNames(str(Path(name).parent)))


class _File(apsw.VFSFile):
    def __init__(self, recorder: Recorder, called: str, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        asked = flags[0]
        super().__init__("unix", name, flags)
        self._recorder = recorder
        self._directory = str(Path(called).parent)
        self._file = recorder.opened(called)
        self._deaf = bool(asked & recorder.deaf_to)
        # What os_unix.c calls DIRSYNC: of each log that is opened to be made if need be, whoever makes it in the end.
        self._syncs_name = bool(asked & LOGS and asked & apsw.SQLITE_OPEN_CREATE)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        with self._recorder.lock:
            super().xWrite(data, offset)
            self._recorder.note(Write(self._file, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        with self._recorder.lock:
            super().xTruncate(newsize)
            self._recorder.note(Resize(self._file, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        with self._recorder.lock:
            if self._deaf:
                return
            super().xSync(flags)
            self._recorder.note(Sync(self._file))
            if self._syncs_name:
                self._syncs_name = False
                self._recorder.note(SyncNames(self._directory))


@contextmanager
def recording(folder: Path, *, deaf_to: int = 0) -> Iterator[Recorder]:
    """Note what happens to the files of a folder: by SQLite, where ``vfs`` is used, and by Python itself."""
    recorder = Recorder(folder, deaf_to=deaf_to)
    vfs = _Vfs(recorder)

    def noted(name: str) -> Any:
        real, noting = getattr(os, name), getattr(recorder, name)

        def call(*arguments: Any, **more: Any) -> Any:
            return noting(real, *arguments, **more)

        return call

    try:
        with pytest.MonkeyPatch.context() as patched:
            for name in ("open", "close", "pwrite", "fsync", "mkdir"):
                patched.setattr(os, name, noted(name))
            yield recorder
    finally:
        vfs.unregister()


__all__ = ["Recorder", "recording"]
