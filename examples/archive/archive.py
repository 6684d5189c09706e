"""Hash and compress every file under a folder; killed at any moment, the same command goes on where it was."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import perdure
from perdure import Retry, step, workflow

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES_PER_GROUP = 64
BYTES_PER_GROUP = 64 * 1024 * 1024
GROUPS_AT_ONCE = 8
CHUNK = 1024 * 1024

OUTPUT_TROUBLE = Retry(max_attempts=4, initial_delay="500ms", retry_on=OSError)
"""For what writes: a full disk or a network that hiccups. Trouble with a source file is an entry, not an error."""


@dataclass(frozen=True)
class Job:
    """What is to be archived, and where to."""

    folder: str
    out: str


@dataclass(frozen=True)
class Entry:
    """A line of the manifest: a file's contents, or why there are none. Paths are relative to the folder."""

    path: str
    size: int | None = None
    sha256: str | None = None
    gz_size: int | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Listing:
    """What the folder holds: files, in groups that make a step each, and what cannot be archived."""

    groups: list[list[str]]
    problems: list[Entry]


@dataclass(frozen=True)
class Group:
    """Files that are archived by one step."""

    job: Job
    paths: list[str]


@dataclass(frozen=True)
class Summary:
    """How it went."""

    manifest: str
    files: int
    problems: int
    size: int
    gz_size: int


# -- the workflow ---------------------------------------------------------------------------------


@workflow
async def archive(job: Job) -> Summary:
    """List the folder, archive its files group by group, write the manifest."""
    listing = await list_files.aio(job)
    groups = [Group(job, paths) for paths in listing.groups]
    archived = await perdure.map(archive_group, groups, limit=GROUPS_AT_ONCE)
    entries = [entry for group in archived for entry in group] + listing.problems
    return await write_manifest.aio(job, sorted(entries, key=lambda entry: entry.path))


@step
def list_files(job: Job) -> Listing:
    """Walk the folder in the order of names. Symbolic links are reported, not followed."""
    groups: list[list[str]] = []
    problems: list[Entry] = []
    room = files = 0
    for path, found in _walk(Path(job.folder)):
        if isinstance(found, str):
            problems.append(Entry(path, problem=found))
            continue
        if not files or room < found:
            groups.append([])
            room, files = BYTES_PER_GROUP, FILES_PER_GROUP
        groups[-1].append(path)
        room, files = room - found, files - 1
    return Listing(groups, problems)


@step(retry=OUTPUT_TROUBLE)
def archive_group(group: Group) -> list[Entry]:
    """Archive some files; all of it is on disk when the step ends. Doing it again changes nothing."""
    folder, out = Path(group.job.folder), Path(group.job.out)
    objects, unfinished = out / "objects", out / "unfinished"
    for needed in (objects, unfinished):
        needed.mkdir(parents=True, exist_ok=True)
    entries = [_archive_file(folder, path, objects, unfinished) for path in group.paths]
    _sync_folder(objects)
    return entries


@step(retry=OUTPUT_TROUBLE)
def write_manifest(job: Job, entries: list[Entry]) -> Summary:
    """Write a JSON object per line, in the order of paths, and remove what killed processes left unfinished."""
    out = Path(job.out)
    out.mkdir(parents=True, exist_ok=True)
    target = out / "manifest.jsonl"
    with _replacing(target, out) as file:
        for entry in entries:
            file.write(json.dumps(asdict(entry)).encode() + b"\n")
    _sync_folder(out)
    shutil.rmtree(out / "unfinished", ignore_errors=True)
    done = [entry for entry in entries if entry.problem is None]
    return Summary(
        manifest=str(target),
        files=len(done),
        problems=len(entries) - len(done),
        size=sum(entry.size or 0 for entry in done),
        gz_size=sum(entry.gz_size or 0 for entry in done),
    )


# -- files ----------------------------------------------------------------------------------------


def _walk(folder: Path) -> Iterator[tuple[str, int | str]]:
    """Yield each path with its size, or with the reason why it cannot be archived."""
    unreadable: list[OSError] = []
    for place, folders, names in os.walk(folder, onerror=unreadable.append):
        folders.sort()
        links = [name for name in folders if Path(place, name).is_symlink()]
        for name in sorted(names + links):
            path = Path(place, name)
            yield str(path.relative_to(folder)), _size(path)
    for error in unreadable:
        if error.filename == str(folder):
            raise error  # there is nothing to archive at all
        yield str(Path(error.filename).relative_to(folder)), _said(error)


def _size(path: Path) -> int | str:
    try:
        found = path.lstat()
    except OSError as error:
        return _said(error)
    if stat.S_ISLNK(found.st_mode):
        return "symbolic link, not followed"
    return found.st_size if stat.S_ISREG(found.st_mode) else "not a regular file"


def _archive_file(folder: Path, path: str, objects: Path, unfinished: Path) -> Entry:
    """Compress a file to ``objects/<sha256 of its contents>.gz``, which is there whole or not at all."""
    with ExitStack() as stack:
        try:
            source = stack.enter_context(_open(folder / path))
        except OSError as error:
            return Entry(path, problem=_said(error))
        descriptor, name = tempfile.mkstemp(dir=unfinished)
        stack.callback(Path(name).unlink, missing_ok=True)
        target = stack.enter_context(os.fdopen(descriptor, "wb"))
        size, digest = 0, hashlib.sha256()
        # No name and no time in it, so that the same contents make the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=target, compresslevel=6, mtime=0) as packed:
            while True:
                try:
                    chunk = source.read(CHUNK)
                except OSError as error:
                    return Entry(path, problem=_said(error))
                if not chunk:
                    break
                size += len(chunk)
                digest.update(chunk)
                packed.write(chunk)
        finished = objects / f"{digest.hexdigest()}.gz"
        if not finished.exists():
            target.flush()
            os.fsync(descriptor)
            Path(name).replace(finished)
        return Entry(path, size, digest.hexdigest(), finished.stat().st_size)


def _open(path: Path) -> IO[bytes]:
    """Open what is a regular file now: it may have become a link or a pipe since it was listed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("no longer a regular file")
    return os.fdopen(descriptor, "rb", buffering=0)


def _said(error: OSError) -> str:
    return f"{type(error).__name__}: {error.strerror or error}"


@contextmanager
def _replacing(target: Path, folder: Path) -> Iterator[IO[bytes]]:
    """Write a file that takes the place of ``target`` in one move, once all of it is on disk."""
    descriptor, name = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make what was moved into the folder stay there."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- the command line -----------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Archive a folder, or go on with it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="archive.py", description=__doc__)
    parser.add_argument("folder", type=Path, help="what is archived")
    parser.add_argument("out", type=Path, help="where to: objects/, manifest.jsonl, and by default the store")
    parser.add_argument("--store", help="where the run is remembered; by default OUT/archive.db")
    parser.add_argument("--run-id", default="archive", help="another one archives the folder anew (default: archive)")
    options = parser.parse_args(arguments)
    folder, out = options.folder.resolve(), options.out.resolve()
    if not folder.is_dir():
        parser.error(f"{folder} is no folder")
    if folder == out or folder in out.parents or out in folder.parents:
        parser.error("FOLDER and OUT must lie outside each other")
    store = options.store or str(out / "archive.db")
    try:
        done = perdure.run(archive, Job(str(folder), str(out)), run_id=options.run_id, store=store)
    except (perdure.PerdureError, OSError) as error:
        print(f"archive.py: {error}", *getattr(error, "__notes__", ()), sep="\n  ", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("archive.py: stopped; the same command goes on", file=sys.stderr)
        return 130
    print(f"{done.files} files, {done.size} bytes, compressed {done.gz_size}; {done.problems} not archived")
    print(done.manifest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
