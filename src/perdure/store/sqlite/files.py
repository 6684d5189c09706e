"""The store's file before SQLite sees it: is it ours, may it be made, can this file system keep it safe?"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING

from perdure.errors import NotAStore, StoreCorrupt, StoreUnreachable, StoreUnsafe
from perdure.model.records import APPLICATION_ID

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = b"SQLite format 3\x00"
_HEADER = 100
_APPLICATION_ID_AT = 68
_JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_PAGES_BEFORE = slice(16, 20)
"""Where a rollback journal says how many pages the database had before."""

_NETWORK = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB",
    0x01021997: "9p",
    0x5346414F: "AFS",
    0x00C36400: "Ceph",
    0x73757245: "Coda",
    0x0BD00BD0: "Lustre",
    0x7461636F: "OCFS2",
    0x47504653: "GPFS",
    0x013111A8: "iBRIX",
    0x564C: "NCP",
    0x786F4256: "VirtualBox shared folder",
    0x19830326: "BeeGFS",
}
"""File systems whose locks or shared memory another machine does not see, by the type statfs(2) gives."""

_FUSE = 0x65735546
_FUSE_LOCAL = {"fuseblk", "fuse.ntfs-3g", "fuse.mergerfs", "fuse.bindfs", "fuse.fuse-overlayfs", "fuse.gocryptfs"}


def look_at(path: Path) -> bool:
    """Say whether there is a store at ``path``, reading only headers.

    False: there is nothing, or an empty file, or a store that is half made.

    Call it only while this process has no store open on the file: closing any descriptor of a file drops the locks
    that the process holds on it.

    Raises:
        NotAStore: the file belongs to something else.
        StoreCorrupt: it was a store, and is cut off.
    """
    try:
        with path.open("rb", buffering=0) as file:
            header = file.read(_HEADER)
    except FileNotFoundError:
        return False
    if not header or is_half_made(path):
        return False
    advice = "give the path of a Perdure store, or of a file that does not exist yet; this file was not touched"
    if header[: len(_MAGIC)] != _MAGIC[: len(header)]:
        raise NotAStore(f"{path} is not a database", store=str(path), advice=advice)
    if len(header) < _HEADER:
        raise StoreCorrupt(f"{path} is cut off", store=str(path), advice="restore a backup")
    if int.from_bytes(header[_APPLICATION_ID_AT : _APPLICATION_ID_AT + 4], "big") != APPLICATION_ID:
        raise NotAStore(f"{path} is the database of another program", store=str(path), advice=advice)
    return True


def is_half_made(path: Path) -> bool:
    """Whether the database at ``path`` was being made when its process or the power went: it holds nothing yet.

    Its file may hold anything then, and none of it counts: SQLite's journal says that there was no page before, and
    whoever opens the database makes it empty again.
    """
    try:
        with open(f"{path}-journal", "rb", buffering=0) as file:  # noqa: PTH123 - a name made from the path's
            header = file.read(_PAGES_BEFORE.stop)
    except FileNotFoundError:
        return False
    return header.startswith(_JOURNAL_MAGIC) and header[_PAGES_BEFORE] == bytes(4)


def make_file(path: Path) -> None:
    """Make an empty file that only its owner can read, and the directories above it likewise.

    Raises:
        OSError: it cannot be made.
    """
    make_directory(path.parent)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Make a directory and those above it, 0700, each of them durable."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make a new entry of a directory durable; a file system without that notion is no fault."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def refuse_network(path: Path) -> None:
    """Refuse a file system on which SQLite's locks and shared memory do not hold.

    Raises:
        StoreUnsafe: ``path`` lies on one.
        StoreUnreachable: its directory does not exist.
    """
    name = network_of(path)
    if name is not None:
        raise StoreUnsafe(
            f"{path} is on {name}, where a SQLite database gets corrupted",
            store=str(path),
            filesystem=name,
            advice="put the store on a local disk; for several machines use PostgreSQL",
        )


def network_of(path: Path) -> str | None:
    """Name the network file system that ``path`` lies on, or will; None if it is a local one or not known.

    Raises:
        StoreUnreachable: its directory does not exist.
    """
    directory = next((place for place in path.parents if place.exists()), None)
    if directory is None:
        raise StoreUnreachable(f"no such directory: {path.parent}", store=str(path))
    return network_name(_statfs_type(directory), lambda: _mount_type(directory))


def network_name(magic: int | None, mount_type: Callable[[], str]) -> str | None:
    """Name the network file system that a statfs type stands for; None if it is a local one or not known."""
    if magic is None:
        return None
    if magic == _FUSE:
        kind = mount_type()
        return None if kind in _FUSE_LOCAL or kind == "" else kind
    return _NETWORK.get(magic)


def _statfs_type(path: Path) -> int | None:
    # os.statvfs leaves the type out. It is the structure's first word on every Linux this runs on.
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(512)
    if libc.statfs(os.fsencode(path), buffer) != 0:
        return None
    return int.from_bytes(buffer.raw[:4], sys.byteorder)


def _mount_type(path: Path) -> str:
    """Return the type of the file system that holds ``path``, as mount(8) names it; empty if unknown."""
    best, kind = "", ""
    place = str(path.resolve())
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:  # noqa: PTH123
            for line in mounts:
                fields, _, rest = line.partition(" - ")
                point = fields.split(" ")[4].replace("\\040", " ")
                if (place == point or place.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                    best, kind = point, rest.split(" ", 1)[0]
    except OSError:
        return ""
    return kind


if TYPE_CHECKING:
    from collections.abc import Callable
