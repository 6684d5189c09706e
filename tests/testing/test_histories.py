from __future__ import annotations

import asyncio
import json

import pytest

from perdure import Engine, sleep, step, workflow
from perdure.errors import CodeNotFound, ColourError, IntegrityError
from perdure.model.histories import dump
from perdure.replaying import Verdict
from perdure.testing import HistoryDeparts, replay_history


@step
async def add(a: int, b: int) -> int:
    return a + b


@workflow
async def sums(n: int) -> int:
    first = await add(n, 1)
    await sleep("1h")
    return await add(first, 2)


@workflow(name="sums")
async def other_sums(n: int) -> int:
    first = await add(n, 2)
    await sleep("1h")
    return await add(first, 2)


@workflow(name="sums")
async def more_sums(n: int) -> int:
    return await sums.fn(n) + await add(n, n)


async def _history(target, *, finished):
    from perdure.testing import ManualClock

    clock = ManualClock()
    async with Engine(target, workflows=[sums], clock=clock, durability="process") as engine:
        handle = await engine.enqueue(sums, 5, run_id="r")
        await clock.pass_time("1h" if finished else "1m", engine)
        events = [event async for event in handle.events()]
        return dump(await handle.row(), events, lambda _digest: None)


@pytest.fixture(params=[True, False], ids=["finished", "under way"])
def finished(request):
    return request.param


@pytest.fixture
def document(made_store, finished):
    return asyncio.run(_history(made_store(), finished=finished))


@pytest.fixture
def path(tmp_path, document):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_history_is_replayed_against_the_code_that_it_names(path, finished):
    assert replay_history(path).verdict is (Verdict.SAME if finished else Verdict.OPEN)
    assert replay_history(str(path), sums).run_id == "r"


def test_code_that_departs_fails_with_the_place_and_what_to_do(path):
    with pytest.raises(HistoryDeparts, match=r"sums departs from the history of run 'r' at seq \d") as caught:
        replay_history(path, other_sums)
    assert isinstance(caught.value, AssertionError)
    assert caught.value.replayed.verdict is Verdict.DEPARTS
    assert caught.value.fields["seq"] == caught.value.replayed.seq
    assert caught.value.advice


def test_a_step_added_at_the_end_departs_for_runs_that_have_ended_only(path, finished):
    if finished:
        with pytest.raises(HistoryDeparts, match="goes on"):
            replay_history(path, more_sums)
    else:
        assert replay_history(path, more_sums).verdict is Verdict.OPEN


def test_code_that_is_gone_a_changed_file_and_no_history_are_told_apart(path, document):
    document["code"]["module"] = document["workflow"] = "nowhere"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(CodeNotFound):
        replay_history(path)
    document["events"][1]["at"] += 1
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(IntegrityError):
        replay_history(path, sums)
    path.write_text("no json", encoding="utf-8")
    with pytest.raises(IntegrityError, match=r"r\.json is no history"):
        replay_history(path)


def test_it_is_called_where_no_loop_runs(path):
    async def inside():
        replay_history(path)

    with pytest.raises(ColourError, match="plain def test"):
        asyncio.run(inside())
