"""Namespaces: the same ids, keys, schedules, tags and signals side by side, and nothing that is done crosses."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import perdure
from perdure import Engine, Signal, workflow
from perdure.cli.exits import Exit
from perdure.cli.main import cli
from perdure.errors import DefinitionError, RunConflict, RunNotFound, ScheduleNotFound
from perdure.model.records import Status
from perdure.store.open import open_store
from perdure.store.protocol import Filter
from perdure.testing import ManualClock
from tests.engine.desk import engine_at, in_loop, in_status, work

word = Signal[str]("word")
ENGINES = {}


@workflow
async def pupil(tag: str) -> str:
    return f"{await work(tag)}-{await word.wait()}"


@workflow
async def echo(tag: str) -> str:
    return await work(tag)


@workflow
async def teacher(place: str) -> list[str]:
    child = pupil.with_options(run_id="pupil").start(place)
    await ENGINES[place].enqueue(echo, place, run_id="echo", tags={"kind": "school"})
    await ENGINES[place].get("listener").signal(word, f"from {place}")
    return [await child.result(), await word.wait()]


ALL = (teacher, pupil, echo)
PLACES = ("east", "west")


async def listed(engine, **where):
    return sorted([row.run_id async for row in engine.runs(**where)])


@in_loop
async def test_the_same_names_in_two_namespaces_are_different_things(path, desk):
    for place in PLACES:
        ENGINES[place] = engine_at(path, *ALL, desk=desk, namespace=place)
    east, west = ENGINES["east"], ENGINES["west"]
    async with east, west:
        for place, engine in ENGINES.items():
            await engine.enqueue(pupil, place, run_id="listener", idempotency_key="k", tags={"kind": "school"})
            await engine.enqueue(teacher, place, run_id="teacher", tags={"kind": "school"})
        # What was sent from a workflow and what it has started are of its own namespace.
        for place, engine in ENGINES.items():
            assert await engine.get("listener").result() == f"{place}-from {place}"
            assert await engine.get("echo").result() == place
            assert (await engine.enqueue(pupil, place, idempotency_key="k")).run_id == "listener"
            with pytest.raises(RunConflict):
                await engine.enqueue(pupil, "elsewhere", run_id="pupil")
        # What is done on one side leaves the other as it was.
        assert await east.get("teacher").signal(word, "done", idempotency_key="s")
        assert await west.get("teacher").signal(word, "done", idempotency_key="s")
        await west.get("teacher").cancel("no more")
        await east.get("pupil").signal(word, "hello")
        assert await east.get("teacher").result() == ["east-hello", "done"]
        await in_status(west, "pupil", Status.CANCELLED)
        fork = await east.get("listener").fork("work", run_id="again")
        await fork.signal(word, "anew")
        assert await fork.result() == "east-anew"
        for call in (west.get("again").row(), west.get("again").cancel(), west.get("again").signal(word, "x")):
            with pytest.raises(RunNotFound):
                await call
        assert await listed(east) == ["again", "echo", "listener", "pupil", "teacher"]
        assert await listed(west) == ["echo", "listener", "pupil", "teacher"]
        assert await listed(east, tags={"kind": "school"}) == ["again", "echo", "listener", "teacher"]
        assert await listed(west, tags={"kind": "school"}) == ["echo", "listener", "teacher"]
        assert await listed(west, status="cancelled") == ["pupil", "teacher"]
        assert await listed(east, status="cancelled") == []
        assert await listed(east, workflow=teacher) == ["teacher"]
        assert (await east.runs().cancel()).done == 0
        assert await east.namespaces() == ["east", "west"]
    with open_store(path) as store:
        assert store.list_runs(Filter()) == []
        assert len({store.get_run("listener", place).uid for place in PLACES}) == 2


@in_loop
async def test_schedules_of_one_name_in_two_namespaces_fire_and_end_apart(path, desk):
    clock = ManualClock()
    east, west = (engine_at(path, echo, desk=desk, clock=clock, namespace=place) for place in PLACES)
    async with east, west:
        await east.schedule(echo, "east", every="1h", key="hourly")
        await west.schedule(echo, "west", every="1h", key="hourly")
        for ends in (False, True):
            if ends:
                await west.unschedule("hourly")
            await clock.pass_time("1h", east)
            await west.idle()
        assert [one.key async for one in east.schedules()] == ["hourly"]
        assert [one async for one in west.schedules()] == []
        assert (len(await listed(east)), len(await listed(west))) == (2, 1)
        assert sorted(begun.idem for begun in desk.begun) == sorted({begun.idem for begun in desk.begun})
        with pytest.raises(ScheduleNotFound):
            await west.get_schedule("daily").view()


def test_commands_see_one_namespace(path, desk):
    for place in PLACES:
        perdure.run(echo, place, run_id=f"in-{place}", store=path, namespace=place, tools=desk)

    def told(*line, **environ):
        return CliRunner().invoke(cli, [*line, "--store", path], env=environ)

    (row,) = told("runs", "--json", "--namespace", "west").stdout.splitlines()
    assert (json.loads(row)["run_id"], json.loads(row)["namespace"]) == ("in-west", "west")
    assert told("runs", "--json").stdout == ""
    assert told("show", "in-east", PERDURE_NAMESPACE="east").exit_code == 0
    assert told("show", "in-east", "--namespace", "west", PERDURE_NAMESPACE="east").exit_code == Exit.NOT_FOUND
    assert told("cancel", "in-east", "--namespace", "west").exit_code == Exit.NOT_FOUND
    assert json.loads(told("verify", "--json", "--namespace", "east").stdout)["runs"] == 1
    assert [one["namespace"] for one in json.loads(told("namespaces", "--json").stdout)] == ["east", "west"]


def test_runs_here_and_now_have_a_namespace_by_word_or_by_environment(path, desk, monkeypatch):
    for place in PLACES:
        assert perdure.run(echo, place, run_id="r", store=path, namespace=place, tools=desk) == place
    monkeypatch.setenv("PERDURE_NAMESPACE", "west")
    assert perdure.run(echo, "west", run_id="r", store=path, tools=desk) == "west"
    with pytest.raises(RunConflict):
        perdure.run(echo, "east", run_id="r", store=path, tools=desk)
    assert desk.keys() == ["work#1"] * 2
    with pytest.raises(DefinitionError):
        Engine(path, namespace="a\nb")
