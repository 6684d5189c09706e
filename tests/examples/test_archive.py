"""The archive of a real tree is complete and right, however often its process was killed."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples.archive import archive as example
from examples.archive.archive import Entry, Group, Job
from perdure.model.records import Kind
from perdure.store.open import open_store
from perdure.testing import explore_crashes
from tests.house import tree

SCRIPT = tree.ROOT / "examples" / "archive" / "archive.py"
ENVIRON = {**os.environ, "PYTHONPATH": str(tree.PACKAGE.parent)}
KILLS = 6
ODD = (
    b" leading", b"-rf", b"new\nline", b"tab\tquote'\"\\", b"x" * 255, b"a", b"a.gz.gz", b".hidden", b"%00 *?[!]",
    "grüße – ✓.txt".encode(), "grüße – ✓.txt".encode("utf-16"), b"\xff\xfe not utf-8",
)  # fmt: skip


def plant(folder: Path, files: int, seed: int) -> dict[bytes, bytes]:
    """Make a tree; returns the contents by path."""
    chance = random.Random(seed)  # noqa: S311 - test data
    made: dict[bytes, bytes] = {}
    long = [b"a folder %d/with a rather long name %d/" % (n % 7, n) for n in range(40)]
    places = [b"", b"a.gz/", b"deep/" * 20, *long]
    for number in range(files):
        size = chance.choice((0, 1, 200, 3000, 20_000))
        if number % 500 == 100:  # a few that take a while
            size = 3 * example.CHUNK + 17
        data = chance.randbytes(size // 2) + bytes(size - size // 2)
        made[chance.choice(places) + b"f%d" % number] = data
    made |= {name.replace(b"\0", b""): b"odd %d" % n for n, name in enumerate(ODD)}
    for path, data in made.items():
        full = folder / os.fsdecode(path)
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(data)
    return made


def manifest(out: Path) -> list[Entry]:
    return [Entry(**json.loads(line)) for line in (out / "manifest.jsonl").read_text("ascii").splitlines()]


def assert_archived(out: Path, made: dict[bytes, bytes]) -> None:
    entries = {entry.path: entry for entry in manifest(out)}
    assert set(entries) == {os.fsdecode(path) for path in made}
    for path, data in made.items():
        entry = entries[os.fsdecode(path)]
        digest = hashlib.sha256(data).hexdigest()
        packed = (out / "objects" / f"{digest}.gz").read_bytes()
        assert entry == Entry(entry.path, len(data), digest, len(packed))
        assert gzip.decompress(packed) == data
    objects = {path.name for path in (out / "objects").iterdir()}
    assert objects == {f"{entry.sha256}.gz" for entry in entries.values()}, "something was left over"


class Watched:
    """The command in a process that tells what it reaches."""

    def __init__(self, *arguments: object) -> None:
        reading, writing = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.examples.watched", str(writing), SCRIPT, *map(str, arguments)],
            cwd=tree.ROOT, env=ENVIRON, pass_fds=[writing], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        os.close(writing)
        self.said = os.fdopen(reading, "r", encoding="utf-8")

    def kill_after(self, points: int) -> list[str]:
        """SIGKILL it once it has announced so many points; returns the keys of the bodies that have begun."""
        lines = []
        for line in self.said:
            lines.append(line)
            if len(lines) == points:
                self.process.kill()
        self.said.close()
        self.process.communicate(timeout=20)
        whole = [line.split() for line in lines if line.endswith("\n")]
        return [key[0] for point, *key in whole if point == "body"]


def committed(store: Path) -> list[str]:
    """Keys of the steps whose outcome is in the log."""
    if not store.exists() or store.stat().st_size == 0:
        return []
    with open_store(store, create=False) as opened:
        row = opened.get_run("archive")
        events = [] if row is None else opened.read_events(row.run_key, 0, 10_000)
    return [event.key for event in events if event.kind == Kind.STEP_COMPLETED]


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(120)
def test_a_killed_archive_goes_on_by_the_same_command_until_it_is_complete(tmp_path):
    folder, out = tmp_path / "folder", tmp_path / "out"
    folder.mkdir()
    chance = random.Random(20)  # noqa: S311 - moments to kill at
    made = plant(folder, 2000, seed=20)
    kills = begun = 0
    while True:
        before = committed(out / "archive.db")
        child = Watched(folder, out)
        # Then it is somewhere in what follows that point, and other threads are anywhere.
        keys = child.kill_after(chance.randint(4, 25) if kills < KILLS else -1)
        assert not set(keys) & set(before), "a committed step's body ran again"
        assert len(keys) == len(set(keys))
        begun += len(keys)
        if child.process.returncode == 0:
            break
        assert child.process.returncode == -9, child.process.stderr
        kills += 1
    assert kills == KILLS
    steps = committed(out / "archive.db")
    assert len(steps) == len(set(steps)) >= len(made) // example.FILES_PER_GROUP + 2
    assert len(steps) < begun <= len(steps) + KILLS * example.GROUPS_AT_ONCE
    assert_archived(out, made)
    assert not (out / "unfinished").exists()
    tools_agree(folder, out, made)
    replays(out)


def tools_agree(folder: Path, out: Path, made: dict[bytes, bytes]) -> None:
    """What sha256sum and gzip say, where they are."""
    if shutil.which("gzip"):
        command = ["gzip", "-t", *sorted((out / "objects").iterdir())]
        subprocess.run(command, check=True, timeout=30)
    if shutil.which("sha256sum"):
        command = [b"sha256sum", b"-z", b"--", *sorted(made)]
        said = subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=30).stdout
        sums = {line[66:]: line[:64].decode() for line in said.split(b"\0") if line}
        assert sums == {os.fsencode(entry.path): entry.sha256 for entry in manifest(out)}


def replays(out: Path) -> None:
    """The log agrees with the code, and its large payloads are where they belong."""
    command = [sys.executable, "-m", "perdure", "replay", "archive", "--store", out / "archive.db", "--json"]
    done = subprocess.run(command, env=ENVIRON, check=False, capture_output=True, text=True, timeout=30)
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "same"), done.stdout
    with open_store(out / "archive.db", create=False) as opened:
        row = opened.get_run("archive")
        listed = next(e for e in opened.read_events(row.run_key) if e.kind == Kind.STEP_COMPLETED)
        assert len(opened.get_artifact(listed.payload)) > 64 * 1024


def test_it_survives_a_crash_at_every_point(tmp_path):
    folder, out = tmp_path / "folder", tmp_path / "out"
    folder.mkdir()
    made = plant(folder, 5, seed=1)

    def new_world() -> str:
        shutil.rmtree(out, ignore_errors=True)
        return str(out)

    report = explore_crashes(
        example.archive, Job(str(folder), str(out)), tools=new_world, check=lambda _: assert_archived(out, made)
    )
    assert report.rows


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", SCRIPT, *map(str, arguments)]
    return subprocess.run(command, env=ENVIRON, check=False, capture_output=True, text=True, timeout=30)


def test_what_cannot_be_read_is_an_entry_of_the_manifest(tmp_path):
    folder, out = tmp_path / "folder", tmp_path / "out"
    folder.mkdir()
    (folder / "good").write_bytes(b"good")
    (folder / "link").symlink_to("good")
    (folder / "linked").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(folder / "pipe")
    done = run(folder, out)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "1 files, 4 bytes, compressed 24; 3 not archived")
    problems = {entry.path: entry.problem for entry in manifest(out)}
    assert problems == {
        "good": None,
        "link": "symbolic link, not followed",
        "linked": "symbolic link, not followed",
        "pipe": "not a regular file",
    }


def test_a_file_that_changed_its_nature_since_it_was_listed_is_reported(tmp_path):
    folder, out = tmp_path / "folder", tmp_path / "out"
    folder.mkdir()
    (folder / "good").write_bytes(b"good")
    (folder / "link").symlink_to("good")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    group = Group(Job(str(folder), str(out)), ["gone", "good", "link", "folder", "pipe"])
    entries = example.archive_group(group)  # outside a run a step is the plain function
    assert entries == example.archive_group(group)
    problems = [entry.problem for entry in entries]
    assert problems[1] is None
    assert [problem.partition(":")[0] for problem in problems if problem] == [
        "FileNotFoundError", "OSError", "OSError", "OSError",
    ]  # fmt: skip


def test_trouble_with_the_output_is_an_error(tmp_path):
    (tmp_path / "good").write_bytes(b"good")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "objects").write_bytes(b"in the way")
    with pytest.raises(FileExistsError):
        example.archive_group(Group(Job(str(tmp_path), str(tmp_path / "out")), ["good"]))


def test_a_folder_that_is_not_there_and_one_that_holds_the_output_are_refused(tmp_path):
    assert run(tmp_path / "nothing", tmp_path / "out").returncode == 2
    assert "outside each other" in run(tmp_path, tmp_path / "out").stderr
    assert list(tmp_path.iterdir()) == []


def test_another_folder_needs_another_output_or_run_id(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(name.encode())
    assert run(tmp_path / "one", tmp_path / "out").returncode == 0
    refused = run(tmp_path / "two", tmp_path / "out")
    assert (refused.returncode, "another run id" in refused.stderr) == (1, True)
    assert run(tmp_path / "two", tmp_path / "out", "--run-id", "second").returncode == 0
    assert [entry.path for entry in manifest(tmp_path / "out")] == ["two"]
