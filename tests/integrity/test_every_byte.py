"""G6: whatever is changed, lost, moved or doubled in a stored log is found before it leads to anything.

The chain covers every column of ``events`` but ``run_key``, and the log's place in the chain covers that: an event that
is another run's, or is missing, or stands elsewhere, breaks the numbering or the hashes of both. It does not cover

- **the end of a log that is being written.** A run's row names the last event at its last change of state; what came
  after that and is lost without a trace cannot be missed. The steps in it are executed again, as after a crash before
  their commit. Found are losses up to the last claim, and at rest every one.
- **artifacts.hash** is compared with the data it is the hash of; ``artifacts.size`` and ``artifact_uses`` are read by
  nobody who executes or returns anything.
- **what is not in a log yet** (``inbox``, ``schedules``): it is part of no chain before a run has consumed it.
- **the columns of runs**: they have a table of their own, in ``test_rows.py``.
"""

from __future__ import annotations

import asyncio
import json
import os
from itertools import count

import pytest

from perdure.errors import IntegrityError, PerdureError
from perdure.model.records import Event, Kind, Status
from perdure.store.open import open_store
from perdure.store.protocol import Filter, Store
from perdure.sync import Engine
from perdure.verifying import verify_run
from tests.integrity.recorded import WORKFLOWS, Tools, behind, engine_on, go, patient, record, settle

STORM = bool(os.environ.get("PERDURE_STORM"))
HOPS = 1 if STORM else 3
"""Of so many changes one is tried."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000 if STORM else 60)]

COVERED = [column for column in Event._fields if column != "run_key"]
BYTES = {"payload", "args", "hash"}
NULLABLE = {"key", "attempt", "took", "payload", "args"}


def changed_bytes(value: bytes) -> list[bytes]:
    """Bytes in which one is another; of several positions, or of all."""
    if not value:
        return [b"\0"]
    places = range(len(value)) if STORM else sorted({0, len(value) // 2, len(value) - 1})
    bits = [1, 0x80] if STORM else [1]
    found = [value[:at] + bytes([value[at] ^ bit]) + value[at + 1 :] for at in places for bit in bits]
    return [*found, value[:-1], value + b"\0", b""]


def others(column: str, value: object) -> list[object]:
    """What might stand in a column instead of what does."""
    found: list[object] = [None] if column in NULLABLE else []
    if column in BYTES:
        found += [b""] if value is None else changed_bytes(value)
    elif column == "key":
        found += ["", "x"] if value is None else ["", value[:-1], value + "0", value.swapcase()]
    else:
        number = 0 if value is None else value
        found += [number + 1, number - 1, -1, 0, number ^ (1 << 40) if column == "at" else number + 8]
    return [one for one in dict.fromkeys(found) if one != value]


@pytest.fixture
def store(made_store):
    address = made_store()
    asyncio.run(record(address))
    return address


class Reader:
    """Reads runs in every way there is, and says what it found."""

    def __init__(self, engine: Engine, store: Store) -> None:
        self.engine, self.store = engine, store
        self.rows = {row.run_key: row for row in store.list_runs(Filter())}
        self.results = {key: self.result(key) for key, row in self.rows.items() if row.status.terminal}

    def damage(self, key: int) -> list[str]:
        """What a verification finds."""
        return [one.what for one in verify_run(self.store, self.rows[key]).damage]

    def result(self, key: int) -> str:
        """What whoever waits for a run that has ended is told; to IntegrityError, only that."""
        try:
            return repr(self.engine.get(self.rows[key].run_id).result(5))
        except IntegrityError:
            return "IntegrityError"
        except (LookupError, PerdureError) as error:
            return repr(error)

    def check_found(self, key: int, what: object, *, also_when_read: bool = True) -> None:
        """Damage to a run is found in every way."""
        assert self.damage(key), f"not found: {what}"
        if key in self.results and also_when_read:
            assert self.result(key) == "IntegrityError", f"returned in spite of it: {what}"

    def check_whole(self) -> None:
        """Everything is as it was recorded."""
        for key in self.rows:
            assert not self.damage(key)
        assert {key: self.result(key) for key in self.results} == self.results


@pytest.fixture
def reader(store):
    opened = open_store(store)
    with Engine(store, workflows=WORKFLOWS).client() as engine:
        yield Reader(engine, opened)
    opened.close()


def logs(reader):
    return {key: reader.store.read_events(key) for key in reader.rows}


def test_the_recorded_store_has_most_kinds_and_is_whole(reader):
    kinds = {Kind(event.kind) for log in logs(reader).values() for event in log}
    assert len(kinds) > 18
    reader.check_whole()
    assert "IntegrityError" not in reader.results.values()


def test_a_changed_value_in_any_column_of_any_event_is_found(store, reader):
    hop = count()
    with behind(store) as execute:
        for key, log in logs(reader).items():
            for event in log:
                for column in COVERED:
                    value = getattr(event, column)
                    for other in others(column, value):
                        if next(hop) % HOPS:
                            continue
                        if column == "seq" and 0 < other <= len(log):
                            continue  # the place is taken: see below
                        change = f"UPDATE events SET {column} = ? WHERE run_key = ? AND seq = ?"  # noqa: S608
                        execute(change, other, key, event.seq)
                        reader.check_found(key, (event, column, other))
                        execute(change, value, key, other if column == "seq" else event.seq)
    reader.check_whole()


def insert(execute, event):
    values = ", ".join("?" * len(event))
    execute(f"INSERT INTO events ({', '.join(Event._fields)}) VALUES ({values})", *event)  # noqa: S608


def test_an_event_that_is_lost_moved_or_doubled_is_found(store, reader):
    found = logs(reader)
    with behind(store) as execute:
        for key, log in found.items():
            other = next(other for other_key, other in found.items() if other_key != key)
            for event in log:
                delete = "DELETE FROM events WHERE run_key = ? AND seq = ?"
                execute(delete, key, event.seq)
                reader.check_found(key, ("lost", event))
                if event.seq < len(log):  # the next one moves into its place
                    following = log[event.seq]
                    execute("UPDATE events SET seq = ? WHERE run_key = ? AND seq = ?", event.seq, key, following.seq)
                    reader.check_found(key, ("closed up", event))
                    insert(execute, event._replace(seq=following.seq))
                    reader.check_found(key, ("swapped", event))
                    for seq in (event.seq, following.seq):
                        execute(delete, key, seq)
                    insert(execute, event)
                    insert(execute, following)
                else:
                    insert(execute, event)
            doubled = log[len(log) // 2]._replace(seq=len(log) + 1)
            stranger = other[-1]._replace(run_key=key, seq=len(log) + 1)
            for one in (doubled, stranger):
                insert(execute, one)
                reader.check_found(key, ("put behind", one))
                execute("DELETE FROM events WHERE run_key = ? AND seq = ?", key, one.seq)
            if len(log) <= len(other):  # the whole log of another run
                execute("UPDATE events SET run_key = -1 WHERE run_key = ?", key)
                for one in other:
                    insert(execute, one._replace(run_key=key))
                reader.check_found(key, "another run's log")
                execute("DELETE FROM events WHERE run_key = ?", key)
                execute("UPDATE events SET run_key = ? WHERE run_key = -1", key)
    reader.check_whole()


def test_a_changed_or_lost_artifact_is_found(store, reader):
    uses: dict[bytes, list[int]] = {}
    for key, log in logs(reader).items():
        for event in log:
            if event.kind == Kind.ARTIFACT_KEPT:
                uses.setdefault(bytes.fromhex(json.loads(event.payload)["hash"]), []).append(key)
            elif event.codec:
                uses.setdefault(event.payload, []).append(key)
    assert len(uses) > 1
    with behind(store) as execute:
        for digest, keys in uses.items():
            data = reader.store.get_artifact(digest)
            places = range(len(data)) if STORM and len(data) < 100 else (0, len(data) // 2, len(data) - 1)
            changed = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in places]
            for other in [*changed, data[:-1], data + b"\0", b""]:
                execute("UPDATE artifacts SET data = ? WHERE hash = ?", other, digest)
                for key in keys:
                    assert reader.damage(key)
                execute("UPDATE artifacts SET data = ? WHERE hash = ?", data, digest)
            other_digest = bytes([digest[0] ^ 1]) + digest[1:]
            execute("UPDATE artifacts SET hash = ? WHERE hash = ?", other_digest, digest)
            assert all(reader.damage(key) for key in keys)
            execute("UPDATE artifacts SET hash = ? WHERE hash = ?", digest, other_digest)
    reader.check_whole()


def test_no_damaged_run_goes_on_and_every_whole_one_does(made_store):
    """One run for each change; then all of them could go on."""
    store = made_store()
    changes = [(seq, column, which) for seq in range(1, 8) for column in COVERED for which in range(12 if STORM else 3)]
    lost = [(seq, "lost", 0) for seq in range(1, 8)]
    changes = [*(changes if STORM else changes[::2]), *lost]
    whole = [f"whole-{n}" for n in range(10)]
    damaged = [f"damaged-{n}" for n in range(len(changes))]
    tools = Tools()

    async def begin() -> None:
        async with engine_on(store, tools) as engine:
            for run_id in [*whole, *damaged]:
                await engine.enqueue(patient, 1, run_id=run_id)
            for run_id in [*whole, *damaged]:
                await settle(engine, run_id, Status.WAITING)
        async with engine_on(store, tools).client() as client:
            for run_id in [*whole, *damaged]:
                await client.get(run_id).signal(go, "on")

    async def go_on() -> dict[str, Status]:
        async with engine_on(store, tools) as engine:
            for run_id in [*whole, *damaged]:
                await settle(engine, run_id, Status.COMPLETED, Status.BLOCKED, Status.FAILED, Status.CANCELLED)
            return {row.run_id: row.status async for row in engine.runs()}

    asyncio.run(begin())
    tools.ran.clear()
    opened = open_store(store)
    tried = set()
    with behind(store) as execute:
        for run_id, (seq, column, which) in zip(damaged, changes, strict=True):
            key = opened.get_run(run_id).run_key
            log = opened.read_events(key)
            assert len(log) >= 7
            event = log[seq - 1]
            if column == "lost":
                execute("DELETE FROM events WHERE run_key = ? AND seq = ?", key, seq)
                continue
            wanted = others(column, getattr(event, column))
            other = wanted[which % len(wanted)] if column != "seq" else 100 + which
            tried.add(column)
            execute(f"UPDATE events SET {column} = ? WHERE run_key = ? AND seq = ?", other, key, seq)  # noqa: S608
    opened.close()
    statuses = asyncio.run(go_on())
    assert tried == set(COVERED)
    assert {statuses[run_id] for run_id in whole} == {Status.COMPLETED}
    wrong = {
        changes[n]: statuses[run_id].word for n, run_id in enumerate(damaged) if statuses[run_id] != Status.BLOCKED
    }
    assert not wrong
    assert {run_id for run_id, _ in tools.ran} == set(whole), "a body of a damaged run was executed"
