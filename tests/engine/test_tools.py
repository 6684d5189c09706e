"""Tools: what steps find, when it is made and left, and that it is never stored."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager

import pytest

from perdure import INJECTED, Engine, StepContext, step, workflow
from perdure.store.open import open_store
from tests.engine.desk import Desk, Refused, chore, engine_at, in_loop, until
from tests.servers.behind import contents


@step
async def look(*, ctx: StepContext[object] = INJECTED) -> str:
    return str(ctx.tools)


@workflow
async def looks() -> str:
    return await look()


@step
async def know(*, ctx: StepContext[object] = INJECTED) -> bool:
    return str(ctx.tools) == "hunter2"


@workflow
async def knows() -> bool:
    return await know()


class Managed:
    """Notes that it is entered and left."""

    def __init__(self, noted, name="sync"):
        self.noted, self.name = noted, name

    def __enter__(self):
        self.noted.append("entered")
        return self

    def __exit__(self, *_exc):
        self.noted.append("left")

    def __str__(self):
        return self.name


class ManagedAsync(Managed):
    async def __aenter__(self):
        return self.__enter__()

    async def __aexit__(self, *exc):
        self.__exit__(*exc)


@pytest.mark.parametrize("kind", ["function", "async function", "class", "context manager", "async context manager"])
@in_loop
async def test_what_makes_the_tools_is_called_at_each_start(path, kind):
    noted = []

    def function():
        noted.append("made")
        return "function"

    async def async_function():
        return function()

    class Made:
        def __init__(self):
            noted.append("made")

        def __str__(self):
            return "class"

    @contextmanager
    def manager():
        with Managed(noted) as made:
            yield made

    @asynccontextmanager
    async def async_manager():
        async with ManagedAsync(noted, "async") as made:
            yield made

    tools = {"function": function, "async function": async_function, "class": Made, "context manager": manager}
    engine = engine_at(path, looks, desk=tools.get(kind, async_manager))
    said = {"async function": "function", "context manager": "sync", "async context manager": "async"}.get(kind, kind)
    once = ["entered", "left"] if "manager" in kind else ["made"]
    for times in (1, 2):
        async with engine:
            assert await engine.run(looks) == said
        assert noted == once * times
    async with engine.client():
        pass
    assert noted == once * 2


@in_loop
async def test_an_object_is_used_as_it_is_and_left_open(path):
    noted = []
    for tools in (Managed(noted), ManagedAsync(noted), None, "text"):
        async with engine_at(path, looks, desk=tools) as engine:
            assert await engine.run(looks) == str(tools)
    assert noted == []


@in_loop
async def test_tools_are_left_after_the_last_step_has_ended(path):
    desk, noted = Desk(), []
    gate = desk.hold("chore")

    @asynccontextmanager
    async def tools():
        yield desk
        noted.append("left")

    engine = engine_at(path, chore, desk=tools)
    await engine.start()
    handle = await engine.enqueue(chore, run_id="r")
    await gate.arrival()
    stopping = asyncio.create_task(engine.stop())
    await until(lambda: engine._worker._stopping)
    assert noted == []
    gate.open()
    assert await stopping == []
    assert noted == ["left"]
    async with engine:
        assert await handle.result() == "chore"
    assert desk.keys() == ["work#1"]


@pytest.mark.parametrize("where", ["made", "entered"])
@in_loop
async def test_a_start_that_fails_in_the_tools_leaves_nothing_open(path, desk, where):
    fails = [True]

    @asynccontextmanager
    async def entering():
        if fails:
            fails.clear()
            raise Refused(where)
        yield desk

    def making():
        if fails:
            fails.clear()
            raise Refused(where)
        return desk

    engine = engine_at(path, chore, desk=making if where == "made" else entering)
    with pytest.raises(Refused, match=where):
        await engine.start()
    assert engine._store is None
    async with engine:
        assert await engine.run(chore) == "chore"


@in_loop
async def test_a_start_that_fails_after_the_tools_leaves_them(path):
    noted = []

    def refuse(*_):
        raise Refused("no worker")

    store = open_store(path)
    store.register_worker = refuse
    engine = Engine(store, workflows=[looks], tools=lambda: ManagedAsync(noted, "later"))
    with pytest.raises(Refused, match="no worker"):
        await engine.start()
    assert noted == ["entered", "left"]
    del store.register_worker  # its own again
    async with engine:
        assert await engine.run(looks) == "later"
    store.close()


@in_loop
async def test_tools_that_cannot_be_left_still_let_the_engine_close(path):
    @asynccontextmanager
    async def tools():
        yield "tools"
        raise Refused("while leaving")

    engine = engine_at(path, looks, desk=tools)
    await engine.start()
    assert await engine.run(looks) == "tools"
    with pytest.raises(Refused, match="while leaving"):
        await engine.stop()
    assert engine._store is None
    await engine.start()
    with pytest.raises(Refused):
        await engine.stop()


@in_loop
async def test_tools_are_neither_pickled_nor_stored(path):
    class Secret:
        def __reduce__(self):
            raise AssertionError("pickled")

        def __str__(self):
            return "hunter2"

    async with engine_at(path, knows, desk=Secret()) as engine:
        assert await engine.run(knows, run_id="r") is True
    kept = contents(path)
    assert b"knows" in kept
    assert b"hunter2" not in kept
