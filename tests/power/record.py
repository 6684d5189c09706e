"""What was written to a disk, in its order, and how the disk could look after a power cut at any point of it.

The model, and what it rests on:

- What was synced is there. Of what was not, each sector of 512 bytes may be there or not, whatever was written before
  it or after: operating systems and drives write in any order (https://sqlite.org/atomiccommit.html, section 2).
- A sector may be written in part, from either end (the same section: a sector write is not atomic, but linear), yet no
  byte changes that was not being written (https://sqlite.org/psow.html: powersafe overwrite, which SQLite takes for
  granted on every ordinary file system).
- The size of a file and its contents reach the disk apart from each other. Where a file has grown and the data has not
  arrived, there are zeros, noise, or what another file had there before (atomiccommit.html: "garbage").
- A name is in its directory for certain once the directory was synced, and not before; its removal likewise. Syncing a
  file does not sync its name (fsync(2)). SQLite syncs the directory with the first sync of each log or journal that it
  opened, but neither after it removed a rollback journal (https://sqlite.org/pragma.html#pragma_synchronous: that would
  be EXTRA) nor after it removed a log. ``tests.power.vfs`` notes it so, and a test counts SQLite's calls.
- A disk does not lie: what it says is synced, is. Nothing can be promised on one that does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, Literal, NamedTuple, TypeAlias

SECTOR: Final = 512
Fate = Literal["lost", "kept", "mixed"]
"""What becomes of what was not synced: nothing of it is there, all of it, or any part."""


class Write(NamedTuple):
    """Bytes were written to a file, which is named by its number."""

    file: int
    offset: int
    data: bytes


class Resize(NamedTuple):
    """A file was cut off, or made longer."""

    file: int
    size: int


class Sync(NamedTuple):
    """All that was written to a file before is on disk."""

    file: int


class Link(NamedTuple):
    """A name, relative to the disk's root, was given to a file; to a directory if there is no file."""

    name: str
    file: int | None


class Unlink(NamedTuple):
    """A name was taken away."""

    name: str


class SyncNames(NamedTuple):
    """All names in a directory are on disk as they are."""

    directory: str


Operation: TypeAlias = Write | Resize | Sync | Link | Unlink | SyncNames


class Cut(NamedTuple):
    """A power cut: after how many operations, what becomes of the rest, and the seed of what is left to chance."""

    at: int
    fate: Fate
    seed: int = 0


@dataclass
class Record:
    """Everything that happened to a disk, and what was said to the outside meanwhile.

    Attributes:
        files: what was in each file at first, by the file's number.
        names: the names at first.
        operations: what happened.
        said: what was said, each with the number of operations that there were by then.
    """

    files: dict[int, bytes] = field(default_factory=dict)
    names: dict[str, int | None] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    said: list[tuple[int, object]] = field(default_factory=list)

    def say(self, what: object) -> None:
        """Note what somebody outside has been told now."""
        self.said.append((len(self.operations), what))

    def said_before(self, cut: Cut) -> list[object]:
        """What had been said when the power was cut."""
        return [what for at, what in self.said if at <= cut.at]

    def syncs(self) -> list[int]:
        """After how many operations each sync was done."""
        return [at for at, done in enumerate(self.operations, 1) if isinstance(done, Sync | SyncNames)]


class Disk:
    """A recorded disk; give it cuts in their order, since it goes through the record once."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._at = 0
        self._durable = {number: bytearray(contents) for number, contents in record.files.items()}
        self._waiting: dict[int, list[Write | Resize]] = {}
        self._names = dict(record.names)
        self._renamed: list[Link | Unlink] = []

    def after(self, cut: Cut) -> dict[str, bytes | None]:
        """Return what there is after a cut: the contents of each file by its name; None for a directory."""
        assert cut.at >= self._at, "cuts come in their order"
        for operation in self._record.operations[self._at : cut.at]:
            self._do(operation)
        self._at = cut.at
        chance = Random(f"{cut.seed}-{cut.at}")
        names = _names(self._names, self._survivors(self._renamed, cut.fate, chance))
        spoiler = _Spoiler(chance, self._record.operations[: cut.at])
        found: dict[str, bytes | None] = {}
        for name, file in sorted(names.items()):
            parent = str(Path(name).parent)
            if parent != "." and parent not in found:
                continue  # its directory is lost, and with it everything in it
            found[name] = None if file is None else self._contents(file, cut.fate, spoiler)
        return found

    def _do(self, operation: Operation) -> None:
        match operation:
            case Write(file, _, _) | Resize(file, _):
                self._waiting.setdefault(file, []).append(operation)
            case Sync(file):
                contents = self._durable.setdefault(file, bytearray())
                for waiting in self._waiting.pop(file, ()):
                    _apply(contents, waiting)
            case Link(_, file):
                self._renamed.append(operation)
                if file is not None:
                    self._durable.setdefault(file, bytearray())
            case Unlink():
                self._renamed.append(operation)
            case SyncNames(directory):
                here = [renamed for renamed in self._renamed if str(Path(renamed.name).parent) == directory]
                self._renamed = [renamed for renamed in self._renamed if renamed not in here]
                self._names = _names(self._names, here)

    def _survivors(self, renamed: list[Link | Unlink], fate: Fate, chance: Random) -> list[Link | Unlink]:
        if fate == "mixed":
            return [one for one in renamed if chance.random() < 0.5]
        return renamed if fate == "kept" else []

    def _contents(self, file: int, fate: Fate, spoiler: _Spoiler) -> bytes:
        contents = bytearray(self._durable[file])
        waiting = self._waiting.get(file, [])
        if fate == "kept":
            for operation in waiting:
                _apply(contents, operation)
        elif fate == "mixed" and waiting:
            spoiler.spoil(contents, waiting)
        return bytes(contents)


class _Spoiler:
    """Does a part of what was to be done to files."""

    def __init__(self, chance: Random, before: list[Operation]) -> None:
        self._chance = chance
        self._before = before
        self._odds = chance.choice((0.02, 0.5, 0.5, 0.98))
        self._in_order = chance.random() < 0.25
        self._junk = chance.choice(("zeros", "noise", "leftovers"))

    def spoil(self, contents: bytearray, waiting: list[Write | Resize]) -> None:
        """Do some of the operations to a file's contents, and some of them in part."""
        chance = self._chance
        sizes = [len(contents)]
        last = chance.randrange(len(waiting) + 1)
        for number, operation in enumerate(waiting):
            end = operation.size if isinstance(operation, Resize) else operation.offset + len(operation.data)
            sizes.append(end if isinstance(operation, Resize) else max(sizes[-1], end))
            if self._in_order and number > last:
                continue
            if isinstance(operation, Resize):
                if self._survives(number, last):
                    self._resize(contents, operation.size)
                continue
            for offset, data in _sectors(operation):
                if self._survives(number, last):
                    self._write(contents, offset, data)
                elif chance.random() < 0.1:
                    self._tear(contents, offset, data)
        self._resize(contents, chance.choice(sizes))

    def _survives(self, number: int, last: int) -> bool:
        if self._in_order and number < last:
            return True
        return self._chance.random() < self._odds

    def _write(self, contents: bytearray, offset: int, data: bytes) -> None:
        if len(contents) < offset:
            self._resize(contents, offset)
        contents[offset : offset + len(data)] = data

    def _tear(self, contents: bytearray, offset: int, data: bytes) -> None:
        edge = self._chance.randrange(len(data))
        if self._chance.random() < 0.5:
            self._write(contents, offset, data[:edge])
        else:
            self._write(contents, offset + edge, data[edge:])

    def _resize(self, contents: bytearray, size: int) -> None:
        if size < len(contents):
            del contents[size:]
        while len(contents) < size:
            contents += self._filling(min(SECTOR - len(contents) % SECTOR, size - len(contents)))

    def _filling(self, size: int) -> bytes:
        if self._junk == "noise":
            return self._chance.randbytes(size)
        if self._junk == "leftovers":
            other = self._before[self._chance.randrange(len(self._before))]
            if isinstance(other, Write):
                return other.data[:size].ljust(size, b"\0")
        return bytes(size)


def _apply(contents: bytearray, operation: Write | Resize) -> None:
    if isinstance(operation, Write):
        contents.extend(bytes(max(0, operation.offset - len(contents))))
        contents[operation.offset : operation.offset + len(operation.data)] = operation.data
    else:
        del contents[operation.size :]
        contents.extend(bytes(operation.size - len(contents)))


def _sectors(write: Write) -> list[tuple[int, bytes]]:
    """Return the parts of a write that lie in one sector each."""
    edges = range(write.offset - write.offset % SECTOR, write.offset + len(write.data), SECTOR)
    starts = [max(edge, write.offset) for edge in edges]
    return [
        (start, write.data[start - write.offset : edge + SECTOR - write.offset])
        for start, edge in zip(starts, edges, strict=True)
    ]


def _names(names: dict[str, int | None], renamed: list[Link | Unlink]) -> dict[str, int | None]:
    found = dict(names)
    for one in renamed:
        if isinstance(one, Link):
            found[one.name] = one.file
        else:
            found.pop(one.name, None)
    return found


def lay_out(found: dict[str, bytes | None], folder: Path) -> None:
    """Write what is on a disk to a folder; it is made."""
    folder.mkdir(parents=True)
    for name, contents in found.items():
        if contents is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(contents)


__all__ = [
    "SECTOR",
    "Cut",
    "Disk",
    "Fate",
    "Link",
    "Operation",
    "Record",
    "Resize",
    "Sync",
    "SyncNames",
    "Unlink",
    "Write",
    "lay_out",
]
