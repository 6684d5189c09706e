"""Streams: what steps and workflow code emit, and who reads it."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from dataclasses import dataclass

import pytest
from pydantic import BaseModel

import perdure
from perdure import INJECTED, Engine, Retry, StepContext, Stream, emit, sleep, step, workflow
from perdure.errors import DefinitionError, EngineNotOpen, NotInRun, NotSerializable, RunNotFound, Undecodable
from perdure.model.records import Kind
from perdure.runtime.reports import MOST
from tests.crash.procs import SERVER
from tests.engine.desk import Desk, Refused, engine_at, in_loop, log_of, work
from tests.engine.saying import cut_short, report

MANY = 3 * MOST


class Token(BaseModel):
    """A piece of text."""

    text: str


@dataclass(frozen=True)
class Place:
    """Somewhere."""

    x: int


tokens = Stream[Token]("tokens")
places = Stream[Place]("places")


@step
async def writes(n: int, *, ctx: StepContext[Desk] = INJECTED) -> int:
    for i in range(n):
        ctx.emit(i, "numbers")
        await asyncio.sleep(0)
    return n


@step
def writes_on_a_thread(n: int, *, ctx: StepContext[Desk] = INJECTED) -> int:
    for i in range(n):
        ctx.emit(i, "numbers")
    return n


@workflow
async def writing(n: int) -> int:
    return await writes(n)


@workflow
async def writing_on_a_thread(n: int) -> int:
    return await writes_on_a_thread.aio(n)


@step(retry=Retry(max_attempts=2, initial_delay="1ms"))
async def tries(*, ctx: StepContext[Desk] = INJECTED) -> None:
    tokens.emit(Token(text=f"attempt {ctx.attempt}"))
    if ctx.attempt == 1:
        raise Refused


@workflow
async def talks() -> None:
    tokens.emit(Token(text="begin"))
    await tries()
    emit(Token(text="end"), tokens)
    emit("aside")


@workflow
async def naps() -> str:
    emit(1, "code")
    await work("first")
    emit(2, "code")
    await sleep("1h")
    emit(3, "code")
    return await work("last")


@workflow
def naps_sync() -> str:
    emit(1, "code")
    work.sync("first")
    emit(2, "code")
    perdure.sync.sleep("1h")
    emit(3, "code")
    return work.sync("last")


@workflow
async def branches() -> None:
    async def branch(tag: str) -> None:
        emit(f"{tag} begins", "code")
        await work(tag)
        emit(f"{tag} ends", "code")

    await asyncio.gather(branch("a"), branch("b"))
    await sleep("1h")
    emit("all", "code")


@workflow
async def fails() -> None:
    emit(1)
    await work("bad")
    emit(2)


@workflow
async def large() -> None:
    emit("x" * 100_000)
    await work("between")
    emit("y")


@workflow
async def cannot() -> list[str]:
    said: list[str] = []
    for value, stream in [(object(), "s"), (1, ""), (1, "a/b"), (1, 7), (1, "s" * 300)]:
        try:
            emit(value, stream)
        except (NotSerializable, DefinitionError) as error:
            said.append(error.code)
    emit("fine", "s")
    await work("then")
    return said


@step
async def leaves_a_task_behind(*, ctx: StepContext[Desk] = INJECTED) -> None:
    async def late() -> None:
        await ctx.tools.gates["late"].passed()
        ctx.emit("too late")

    ctx.tools.begun.append(asyncio.ensure_future(late()))


@workflow
async def leaving() -> None:
    await leaves_a_task_behind()


@step
def emits_while_the_loop_is_blocked(*, ctx: StepContext[Desk] = INJECTED) -> list[bool]:
    blocked, go_on = threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        go_on.wait(20)

    ctx._sink.run.host.loop.call_soon_threadsafe(block)
    blocked.wait(20)
    for i in range(MOST):
        ctx.emit(i)
    one_more = threading.Thread(target=ctx.emit, args=(MOST,))
    one_more.start()
    one_more.join(0.3)
    waits = one_more.is_alive()
    go_on.set()
    one_more.join(20)
    return [waits, one_more.is_alive()]


@workflow
async def flooding() -> list[bool]:
    return await emits_while_the_loop_is_blocked.aio()


async def read(engine, run_id, stream="default", **how):
    return [item async for item in engine.get(run_id).stream(stream, **({"follow": False} | how))]


async def _read_into(seen, items):
    async for item in items:
        seen.append(item)


def values(items):
    return [item.value for item in items]


@pytest.mark.parametrize("flow", [writing, writing_on_a_thread])
@in_loop
async def test_many_values_come_in_order_once_each_and_share_commits(path, flow):
    async with engine_at(path, flow) as engine:
        before = engine._journal.commits
        handle = await engine.enqueue(flow, MANY, run_id="r")
        items = [item async for item in handle.stream("numbers")]
        assert values(items) == list(range(MANY))
        assert [item.seq for item in items] == sorted({item.seq for item in items})
        assert {item.attempt for item in items} == {1}
        assert engine._journal.commits - before < MANY / 20
        assert (await handle.view()).streams == {"numbers": MANY}


@in_loop
async def test_steps_and_code_emit_to_one_stream_and_each_value_says_whose_it_is(path):
    async with engine_at(path, talks) as engine:
        await engine.run(talks, run_id="r")
        items = await read(engine, "r", tokens, follow=True)
        assert [(item.value, item.attempt) for item in items] == [
            (Token(text="begin"), None),
            (Token(text="attempt 1"), 1),
            (Token(text="attempt 2"), 2),
            (Token(text="end"), None),
        ]
        assert items[1].key == items[2].key == "tries#1"
        assert values(await read(engine, "r", "tokens")) == [{"text": item.value.text} for item in items]
        assert values(await read(engine, "r")) == ["aside"]
        assert await read(engine, "r", "nothing") == []


@pytest.mark.parametrize("flow", [naps, naps_sync])
@in_loop
async def test_code_that_is_replayed_emits_nothing_again(path, desk, clock, flow):
    async with engine_at(path, flow, desk=desk, clock=clock) as engine:
        await engine.enqueue(flow, run_id="r")
        await clock.armed()
    clock.advance("1h")
    async with engine_at(path, flow, desk=desk, clock=clock) as engine:
        assert await engine.get("r", flow).result() == "last"
        assert values(await read(engine, "r", "code")) == [1, 2, 3]
        log = await log_of(engine, "r")
    assert sum(event.kind == Kind.RUN_CLAIMED for event in log) > 1


@in_loop
async def test_branches_emit_under_keys_of_their_own_and_are_replayed_so(path, desk, clock):
    async with engine_at(path, branches, desk=desk, clock=clock) as engine:
        await engine.enqueue(branches, run_id="r")
        await clock.armed()
    clock.advance("1h")
    async with engine_at(path, branches, desk=desk, clock=clock) as engine:
        await engine.get("r").result()
        items = await read(engine, "r", "code")
    assert Counter(values(items)) == Counter(["a begins", "a ends", "b begins", "b ends", "all"])
    assert values(items)[-1] == "all"
    assert len({item.key for item in items}) == 5


@in_loop
async def test_a_resumed_run_keeps_what_it_had_emitted_and_goes_on(path, desk):
    desk.fails["bad"] = [Refused()]
    async with engine_at(path, fails, desk=desk) as engine:
        handle = await engine.enqueue(fails, run_id="r")
        assert values([item async for item in handle.stream()]) == [1]  # the stream ends with the run
        await handle.resume()
        await handle.result()
        assert values(await read(engine, "r")) == [1, 2]


@in_loop
async def test_whoever_reads_on_from_a_seq_misses_nothing_and_gets_nothing_twice(path):
    async with engine_at(path, writing) as engine:
        await engine.run(writing, 30, run_id="r")
        whole = await read(engine, "r", "numbers")
        for n, item in enumerate(whole):
            assert await read(engine, "r", "numbers", after=item.seq, follow=n % 2 == 0) == whole[n + 1 :]


@in_loop
async def test_whoever_follows_elsewhere_sees_values_while_the_run_goes_on(path, desk):
    gate = desk.hold("bad")
    desk.fails["bad"] = [Refused()]
    async with engine_at(path, fails, desk=desk) as engine, engine_at(path).client() as client:
        await engine.enqueue(fails, run_id="r")
        stream = client.get("r").stream()
        assert (await anext(stream)).value == 1
        assert not (await client.get("r").row()).status.terminal
        gate.open()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


@in_loop
async def test_a_follower_whose_engine_stops_is_told_and_reads_on_where_it_was(path, desk):
    gate = desk.hold("bad")
    engine = engine_at(path, fails, desk=desk)
    async with engine:
        handle = await engine.enqueue(fails, run_id="r")
        stream = handle.stream()
        first = await anext(stream)
        following = asyncio.ensure_future(anext(stream))
        await gate.arrival()
        await engine.stop(drain=0)
        with pytest.raises(EngineNotOpen):
            await following
    gate.open()
    async with engine:
        assert values([item async for item in handle.stream(after=first.seq)]) == [2]


@in_loop
async def test_a_reader_that_takes_its_time_holds_nobody_up_and_reads_on_after_a_stop(path):
    engine, seen = engine_at(path, writing), []
    async with engine:
        handle = await engine.enqueue(writing, 600)
        await handle.result()
        items = handle.stream("numbers")
        seen.append(await anext(items))
        await engine.run(writing, 10)
        await engine.stop()
        with pytest.raises(EngineNotOpen):
            await _read_into(seen, items)
    async with engine.client():
        seen += [item async for item in handle.stream("numbers", after=seen[-1].seq)]
    assert values(seen) == list(range(600))


@in_loop
async def test_a_large_value_is_kept_beside_the_log_and_read_back_whole(path, desk):
    async with engine_at(path, large, desk=desk) as engine:
        await engine.run(large, run_id="r")
        assert values(await read(engine, "r")) == ["x" * 100_000, "y"]


@in_loop
async def test_what_cannot_be_emitted_is_refused_where_it_is_and_the_run_goes_on(path, desk):
    async with engine_at(path, cannot, desk=desk) as engine:
        assert await engine.run(cannot, run_id="r") == ["not_serializable", *["definition"] * 4]
        assert values(await read(engine, "r", "s")) == ["fine"]
        with pytest.raises(DefinitionError):
            await read(engine, "r", "a/b")
        with pytest.raises(RunNotFound):
            await read(engine, "nobody")


@in_loop
async def test_what_does_not_fit_the_streams_type_is_named_and_can_be_passed_by(path):
    async with engine_at(path, talks) as engine:
        await engine.run(talks, run_id="r")
        with pytest.raises(Undecodable) as caught:
            await read(engine, "r", Stream[int]("tokens"))
        assert caught.value.fields["seq"] == (await read(engine, "r", "tokens"))[0].seq


@in_loop
async def test_nothing_is_emitted_once_the_attempt_has_ended(path, desk):
    gate = desk.hold("late")
    async with engine_at(path, leaving, desk=desk) as engine:
        await engine.run(leaving, run_id="r")
        gate.open()
        with pytest.raises(NotInRun):
            await desk.begun[0]
        assert await read(engine, "r") == []


@in_loop
async def test_a_thread_that_emits_faster_than_it_can_be_written_waits(path):
    async with engine_at(path, flooding) as engine:
        assert await engine.run(flooding, run_id="r") == [True, False]
        assert values(await read(engine, "r")) == list(range(MOST + 1))


def test_outside_a_run_nothing_is_emitted():
    with pytest.raises(NotInRun):
        emit(1)
    with pytest.raises(NotInRun):
        places.emit(Place(1))


def test_a_type_in_quotes_is_refused_where_it_is_needed():
    with pytest.raises(DefinitionError):
        _ = Stream["Nowhere"]("s").codec
    with pytest.raises(DefinitionError):
        Stream("a#b")


@in_loop
async def test_what_a_killed_process_had_on_disk_is_read_on_from_a_seq_and_its_code_emits_nothing_again(path, desk):
    process = SERVER.Process(target=cut_short, args=(path,))
    process.start()
    await asyncio.to_thread(process.join)
    assert process.exitcode < 0
    async with engine_at(path).client() as client:
        before = await read(client, "r", "rows")
        assert values(before) == list(range(42))
    async with engine_at(path, report, desk=desk) as engine:
        await engine.get("r").result()
        after = await read(engine, "r", "rows", after=before[-1].seq, follow=True)
        assert values(after) == list(range(42))  # the step is repeated, as the same attempt
        assert {item.attempt for item in before + after} == {1}
        assert await read(engine, "r", "rows") == before + after
        assert values(await read(engine, "r", "code")) == ["begin", "end"]


@pytest.mark.parametrize("flow", [writing, writing_on_a_thread])
@in_loop
async def test_a_step_is_not_done_before_all_that_it_has_emitted_is_in_the_log(path, flow):
    async with engine_at(path, flow) as engine:
        await engine.run(flow, 10, run_id="r")
        kinds = [event.kind for event in await log_of(engine, "r")]
    assert kinds.index(Kind.STEP_COMPLETED) > max(n for n, kind in enumerate(kinds) if kind == Kind.EMITTED)


def test_code_without_async_reads_streams_too(path):
    with perdure.sync.Engine(path, workflows=[talks], durability="process") as engine:
        handle = engine.enqueue(talks, run_id="r")
        assert [item.value.text for item in handle.stream(tokens)] == ["begin", "attempt 1", "attempt 2", "end"]
        assert [item.value for item in handle.stream(follow=False)] == ["aside"]


@in_loop
async def test_an_engine_that_is_not_open_has_no_streams(path):
    with pytest.raises(EngineNotOpen):
        await anext(Engine(path).get("r").stream())
