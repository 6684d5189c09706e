"""After a power cut: what the store must still hold, and how its runs must go on."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import apsw

from perdure.model.records import InboxKind, Kind, RunRow, Status
from perdure.store.open import open_store
from perdure.store.protocol import Store
from perdure.testing import ManualClock
from perdure.verifying import verify_run
from tests.power.life import Began, Scheduled, Shown
from tests.power.lives import EVERYTHING, STORE, Life, Written, go_on, time_of
from tests.power.record import Cut, Disk, Record, lay_out

HEARD: dict[int, Kind] = {InboxKind.SIGNAL: Kind.SIGNAL_RECEIVED, InboxKind.CANCEL: Kind.CANCEL_DELIVERED}
"""What becomes of messages that wait to be heard."""
CONTENTS = ("runs", "events", "inbox", "schedules", "occurrences", "artifacts")
"""The tables on which it depends how runs go on."""


class Lost(AssertionError):
    """Something that was acknowledged is not there."""


class Damaged(AssertionError):
    """What is there is not what was written."""


class Repeated(AssertionError):
    """The body of a step ran again although its outcome was on disk, or under another key."""


@dataclass
class Found:
    """What a store holds.

    Attributes:
        facts: all of it that somebody outside may have been told.
        runs: the ids of its runs.
        completed: the runs and steps of which it has the outcomes.
        digest: equal where runs go on in the same way.
    """

    facts: set[object]
    runs: set[str]
    completed: set[tuple[str, str]]
    digest: bytes


def look(path: Path) -> Found:
    """Open a store, and check and read what it holds; what was cut off is made whole again by that.

    Raises:
        Damaged: it is not sound.
    """
    with open_store(path) as store:
        rows = {row.run_key: row for row in store.list_runs(EVERYTHING)}
        facts: set[object] = {Scheduled(schedule.key) for schedule in store.list_schedules()}
        completed: set[tuple[str, str]] = set()
        for row in rows.values():
            _read_log(store, row, facts, completed)
        try:
            digest = _read_file(path, {row.run_key: row.run_id for row in rows.values()}, facts)
        except apsw.Error as error:
            raise Damaged(str(error)) from error
    return Found(facts, {row.run_id for row in rows.values()}, completed, digest)


def _read_log(store: Store, row: RunRow, facts: set[object], completed: set[tuple[str, str]]) -> None:
    if damage := verify_run(store, row).damage:
        raise Damaged(damage)
    for event in store.read_events(row.run_key):
        kind = Kind(event.kind)
        facts.add(Written(event.hash))
        facts |= {Shown(row.run_id, kind, key, n) for key in (event.key, None) for n in (event.attempt, None)}
        if kind is Kind.STEP_COMPLETED:
            completed.add((row.run_id, str(event.key)))
        elif kind is Kind.RUN_CANCELLED:
            facts.add(Shown(row.run_id, Kind.CANCEL_DELIVERED))


def _read_file(path: Path, runs: dict[int, str], facts: set[object]) -> bytes:
    """Check a database with one more connection, as another process would have; returns the digest of its contents."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        for check, sound in (("integrity_check", [("ok",)]), ("foreign_key_check", [])):
            if (answer := connection.execute(f"PRAGMA {check}").fetchall()) != sound:
                raise Damaged(f"PRAGMA {check}: {answer}")
        for run_key, run_id in runs.items():
            for (kind,) in connection.execute("SELECT kind FROM inbox WHERE run_key = ?", (run_key,)).fetchall():
                if (heard := HEARD.get(int(str(kind)))) is not None:
                    facts.add(Shown(run_id, heard))
        digest = sha256()
        for table in CONTENTS:
            digest.update(repr(connection.execute(f"SELECT * FROM {table}").fetchall()).encode())
        return digest.digest()
    finally:
        connection.close()


class Aftermath:
    """Looks at what power cuts leave of one life; give it cuts in their order."""

    def __init__(self, life: Life, folder: Path) -> None:
        """Look at a life; what goes wrong is left in ``folder``."""
        self._life = life
        self._disk = Disk(life.record)
        self._folder = folder
        self._lived: set[bytes] = set()
        self.cuts = self.states = 0
        """How many cuts there were, and in how many different states they left the store."""

    def check(self, cut: Cut) -> None:
        """See what there is after a cut, that nothing is lacking that was acknowledged, and how it goes on.

        Raises:
            Lost, Damaged, Repeated: by what is wrong; a note says how to look at this cut again.
        """
        disk = self._folder / f"{cut.at}-{cut.fate}-{cut.seed}"
        lay_out(self._disk.after(cut), disk)
        self.cuts += 1
        try:
            self._check(cut, disk)
        except BaseException as error:
            life = self._folder / "life"
            life.write_bytes(pickle.dumps(self._life))
            again = f"python -m tests.power.again {life} {cut.at} {cut.fate} {cut.seed}"
            error.add_note(f"{cut}, of {len(self._life.record.operations)} operations; to see it again: {again}")
            raise
        shutil.rmtree(disk)

    def _check(self, cut: Cut, disk: Path) -> None:
        found = look(disk / STORE)
        said = self._life.record.said_before(cut)
        missing = [what for what in said if isinstance(what, Written | Shown | Scheduled) and what not in found.facts]
        if missing:
            raise Lost(f"{len(missing)} of {len(said)} things that were said: {missing[:5]} …")
        if found.digest not in self._lived:
            self._lived.add(found.digest)
            self.states += 1
            self._go_on(cut, disk, found)

    def _go_on(self, cut: Cut, disk: Path, found: Found) -> None:
        """Make the same calls again, in a fresh engine after a reboot, and see how everything ends."""
        said = self._life.record.said_before(cut)
        after = go_on(disk, Record(), ManualClock(time_of(self._life.record, cut)))
        assert after.results == self._life.results
        assert _names(after.runs) == _names(self._life.runs)
        keys = {(began.run_id, began.key): began.idempotency_key for began in said if isinstance(began, Began)}
        for body in after.bodies:
            step = body.run_id, body.key
            if step in found.completed:
                raise Repeated(f"{body}, whose outcome was on disk")
            if body.run_id in found.runs and keys.get(step, body.idempotency_key) != body.idempotency_key:
                raise Repeated(f"{body}, which had begun under the key {keys[step]}")
        with open_store(disk / STORE, durability="process") as store:
            assert {row.status for row in store.list_runs(EVERYTHING) if row.run_id != "hang"} == {Status.COMPLETED}


def _names(runs: list[str]) -> list[str]:
    """The ids of runs without what makes those of children the ids of one parent only, which may be another by now."""
    return sorted(run_id.rpartition("-")[0] if "/" in run_id else run_id for run_id in runs)


__all__ = ["Aftermath", "Damaged", "Found", "Lost", "Repeated", "look"]
