"""The columns of ``runs``, none of which the chain covers: each is checked, or is harmless for the reason given here.

A run's row is the fold of its log, kept for claiming and listing. What it says twice is compared: by ``perdure verify``
and, where it would lead to something wrong, also before the run goes on. The rest decides when a run goes on, before
which others, and who is told; the log knows nothing of it, and what the run then does is what its log says.
"""

from __future__ import annotations

import asyncio

import pytest

from perdure.model.records import Status
from perdure.store.open import is_postgres, open_store
from perdure.store.protocol import Filter
from perdure.verifying import verify_run
from tests.engine.desk import PATIENCE
from tests.integrity.recorded import Tools, behind, engine_on, go, impostor, patient, settle

PAST, FUTURE = 1_000_000, 8_000_000_000_000_000

VERIFIED = {
    "run_id": ["other"],
    "uid": [b"\0" * 16, b""],
    "route": ["the impostor's"],
    "status": [Status.SLEEPING, Status.COMPLETED, Status.FAILED, Status.PENDING],
    "epoch": [0, 2, 1 << 40],
    "seq": [1, 6, 8, 0],
    "hash": [b"\0" * 16, b""],
    "wake_at": [PAST, FUTURE, None],
    "created_at": [PAST, FUTURE],
    "ended_at": [PAST],
}
"""Compared with the log by ``perdure verify``."""

HELD_UP = {"uid", "route", "epoch", "seq", "hash"}
"""Compared before anything is executed, too: the run is blocked.

Another ``status`` or ``wake_at`` only lets it be looked at sooner or later: what is due the log says. ``run_id`` is
what people call it.
"""

HARMLESS = {
    "run_key": ([], "the key of everything else; a run with another one has no log, which is found"),
    "namespace": (["elsewhere"], "who looks for it where it was does not find it; it goes on as it would have"),
    "worker_key": ([77], "a worker that is not there is taken for dead, and what it holds is taken back"),
    "inbox": ([99, 0], "compared with what its holder has read of this very column"),
    "crashes": ([1, 4], "parked sooner or later, for everybody to see"),
    "refused": ([], "a number of ``refusals``, which says who may claim it"),
    "rank": ([PAST, FUTURE, None], "the order of claiming; without one it rests until something comes in"),
    "awaits": (['["stop"]', None], "what wakes it; that it woke in vain it finds itself, and whatever comes is kept"),
    "undo": (['["x"]'], "who may end it while nobody holds it; what is undone its code says, by its log"),
    "deadline_at": ([FUTURE], "a policy, not a record: when it is over somebody asks it to end, and the log says so"),
    "priority": ([5, -5], "the order of claiming"),
    "partition": (["p"], "the order of claiming"),
    "parent_key": ([77], "who is told of its end; a run that is told of what it does not await takes no notice"),
    "idem": (["key"], "which later enqueue finds it"),
    "paused": ([1], "read by nobody"),
    "started_at": ([PAST, None], "whether its next claim counts for the rate of its queue"),
    "reason": (["why not"], "shown; what a run ended with is said by its log"),
    "meta": ([b'{"tags":{"a":"b"}}', b"x"], "shown"),
    "codec": ([1], "read by nobody"),
    "format": ([0], "which versions of Perdure may claim it; one that is too high it waits for"),
}
"""Not in the log, and why no wrong result comes of it; each with values with which the run still ends as it should."""

ALL = [
    *((column, value) for column, values in VERIFIED.items() for value in values),
    *((column, value) for column, (values, _) in HARMLESS.items() for value in values),
]
RESULT = b'"parcel 1 on 8"'


@pytest.fixture
def tools():
    return Tools()


@pytest.fixture
def store(made_store, tools):
    """A store with one run for each change, and one more: all wait for a signal, which has been sent."""
    address = made_store()
    run_ids = [f"r{number}" for number in range(len(ALL) + 1)]

    async def begin():
        async with engine_on(address, tools) as engine:
            for run_id in run_ids:
                await engine.enqueue(patient, 1, run_id=run_id)
            for run_id in run_ids:
                await settle(engine, run_id, Status.WAITING)
        async with engine_on(address, tools).client() as client:
            for run_id in run_ids:
                await client.get(run_id).signal(go, "on")

    asyncio.run(begin())
    tools.ran.clear()
    return address


def columns(execute, store):
    """What is stored of a run; not what the database works out of that."""
    if is_postgres(store):
        of_table = "table_schema = current_schema() AND table_name = 'runs' AND is_generated = 'NEVER'"
        return {name for (name,) in execute(f"SELECT column_name FROM information_schema.columns WHERE {of_table}")}  # noqa: S608
    return {row[1] for row in execute("PRAGMA table_info(runs)")}


def change(execute, column, value, key):
    """Change a column of a run's row."""
    if column == "route":
        ((value,),) = execute("SELECT route FROM routes WHERE workflow = 'impostor'")
    elif column in {"run_id", "idem"}:
        value = f"{value}-{key}"
    execute(f"UPDATE runs SET {column} = ? WHERE run_key = ?", value, key)  # noqa: S608


def test_every_column_of_a_run_has_its_check_or_its_reason(store):
    with behind(store) as execute:
        assert columns(execute, store) == VERIFIED.keys() | HARMLESS.keys()
    assert not VERIFIED.keys() & HARMLESS.keys()


def test_a_changed_row_is_found_or_leads_to_nothing_wrong(store, tools):
    opened = open_store(store)
    keys = sorted(row.run_key for row in opened.list_runs(Filter(limit=1000)))
    assert len(keys) == len(ALL) + 1
    with behind(store) as execute:
        for key, (column, value) in zip(keys[1:], ALL, strict=True):
            change(execute, column, value, key)
    rows = {row.run_key: row for row in opened.get_runs(keys)}
    found = {key: verify_run(opened, rows[key]).damage for key in keys}
    assert not found[keys[0]]
    for key, (column, value) in zip(keys[1:], ALL, strict=True):
        assert bool(found[key]) is (column in VERIFIED), (column, value, found[key])

    async def go_on():
        async with asyncio.timeout(PATIENCE), engine_on(store, tools) as engine:
            await engine.get("r0").result(PATIENCE)
            for run_id in (row.run_id for row in rows.values() if row.namespace == ""):
                if (await engine.get(run_id).row()).status is Status.WAITING:
                    await engine.get(run_id).signal(go, "again")  # for those that only rest
                await settle(engine, run_id, Status.COMPLETED, Status.BLOCKED)

    asyncio.run(go_on())
    for key, (column, value) in zip(keys[1:], ALL, strict=True):
        (row,) = opened.get_runs([key])
        last = opened.read_events(key)[-1]
        if column in HELD_UP:
            assert row.status is Status.BLOCKED, (column, value)
        else:
            assert (row.status, last.payload) == (Status.COMPLETED, RESULT), (column, value)
    opened.close()
    assert {run_id for run_id, _ in tools.ran}.isdisjoint(
        rows[key].run_id for key, (column, _) in zip(keys[1:], ALL, strict=True) if column in HELD_UP
    )


def test_a_run_is_not_executed_as_one_of_another_workflow(made_store, tools):
    store = made_store()

    async def enqueue():
        async with engine_on(store, tools) as engine:  # so that both have a route
            await engine.enqueue(impostor, 1, run_id="other")
            await engine.get("other").result(PATIENCE)
        async with engine_on(store, tools).client() as client:
            await client.enqueue(patient, 1, run_id="r")

    async def go_on():
        async with engine_on(store, tools) as engine:
            await settle(engine, "r", Status.BLOCKED, Status.COMPLETED)
            return await engine.get("r").row()

    asyncio.run(enqueue())
    tools.ran.clear()
    opened = open_store(store)
    with behind(store) as execute:
        change(execute, "route", None, opened.get_run("r").run_key)
    opened.close()
    row = asyncio.run(go_on())
    assert row.status is Status.BLOCKED
    assert "created with workflow 'patient', but its row says 'impostor'" in row.reason
    assert not tools.ran
