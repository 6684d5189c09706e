"""Engines behind codecs: what users give and get is readable nowhere in the store, and everything works as without."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure import INJECTED, Engine, Retry, Signal, StepContext, continue_as_new, saga, step, workflow
from perdure.codecs import Encryption, Zstandard, new_key
from perdure.errors import CodecMissing, DriftError, RunBlocked, RunConflict
from perdure.hooks import Hooks
from perdure.model import chain, histories
from perdure.model.records import Kind, Status
from perdure.store.coded import codecs_of, coded
from perdure.store.open import is_postgres, open_store
from perdure.store.protocol import Filter
from perdure.testing import explore_crashes
from perdure.verifying import verify_run
from tests.engine.desk import Clock, in_loop, in_status
from tests.servers.behind import rows_of

SECRET = "s3cret-of-the-customer"  # noqa: S105 - it is to be found nowhere
LARGE = SECRET * 5_000
"""More than an event holds."""
word = Signal[str]("word")

TABLES = ("runs", "events", "artifacts", "inbox", "schedules", "occurrences", "tags", "chores", "keys", "queues")


class Refused(Exception):
    pass


@dataclass
class Card:
    number: str
    weight: int = 1


@step
async def charge(card: Card, *, ctx: StepContext = INJECTED) -> str:
    ctx.progress({"card": card.number[:100]})
    ctx.emit(card.number)
    ctx.artifact("receipt", card.number.encode())
    return f"charged {card.number}"


@step
async def copies(text: str) -> str:
    return text


@step(retry=Retry(max_attempts=2, initial_delay=0))
async def refuses(card: Card) -> None:
    raise Refused(f"no {card.number}")


@workflow
async def pays(card: Card) -> str:
    return await charge(card)


@workflow
async def fails(card: Card) -> None:
    await refuses(card)


@workflow
async def everything(card: Card) -> str:
    """Say every word that has a value in it."""
    with suppress(Refused):
        await refuses(card)
    with suppress(Refused):
        await fails(card)
    if card.weight == 1:
        said = await word.wait()
        assert said == LARGE
        continue_as_new(Card(card.number, 2))
    paid = [await pays(card), await charge(card), await copies(LARGE), await pays(Card(LARGE))]
    return "".join(paid)


@workflow
async def is_stuck(card: Card) -> None:
    """Be blocked in undoing."""
    async with saga() as undo:
        undo.push(refuses, card)
        raise Refused(card.number)


@workflow(name="departs")
async def before(card: Card) -> str:
    return await copies(card.number) + await word.wait()


@workflow(name="departs")
async def after(card: Card) -> str:
    return await copies(card.number * 2) + await word.wait()


def engine_at(path, codecs, *workflows, **options):
    return Engine(path, workflows=workflows, codecs=codecs, durability="process", **options)


def contents(path):
    """All that a store holds, as bytes."""
    found = []
    for table in TABLES:
        for row in rows_of(path, f"SELECT * FROM {table}"):  # noqa: S608 - ours
            found += [bytes(value) if isinstance(value, (bytes, memoryview)) else str(value).encode() for value in row]
    if not is_postgres(path):
        found += [file.read_bytes() for file in Path(path).parent.glob(Path(path).name + "*")]
    return found


def assert_unreadable(path):
    """Nothing in the store has the secret in it, neither as it is nor as base64 at any offset."""
    secret = SECRET.encode()
    marks = [secret] + [b64encode(b"\0" * lead + secret)[4:-4] for lead in range(3)]
    for one in contents(path):
        for mark in marks:
            assert mark not in one, one[:200]


async def live(engine):
    """Have a run say everything, and others end in every way there is."""
    main = await engine.enqueue(everything, Card(SECRET), run_id="main", tags={"kind": "main"})
    await main.signal(word, LARGE)
    stuck = await engine.enqueue(is_stuck, Card(SECRET))
    failed = await engine.enqueue(fails, Card(SECRET), run_id="failed")
    await engine.enqueue(fails, Card(LARGE), run_id="large")
    await engine.schedule(pays, Card(SECRET), key="small", every="1h", overlap="allow")
    await engine.schedule(pays, Card(LARGE), key="large", every="1h", overlap="allow")
    result = await main.result()
    with pytest.raises(RunBlocked, match="Refused"):
        await stuck.result()
    with pytest.raises(Refused, match=SECRET):
        await failed.result()
    return result


RESULT = f"charged {SECRET}" * 2 + LARGE + f"charged {LARGE}"


@in_loop
async def test_nothing_that_users_give_or_get_is_readable_in_the_store(path):
    codecs = [Encryption(new_key())]  # so that what is large stays large
    async with engine_at(path, codecs, everything, pays, fails, is_stuck) as engine:
        assert await live(engine) == RESULT
        async with asyncio.timeout(20):
            seen = [one.value async for one in engine.get("main").stream(follow=False)]
        assert SECRET in seen
    async with engine_at(path, codecs, before) as engine:
        await engine.enqueue(before, Card(SECRET), run_id="departs")
        await in_status(engine, "departs", Status.WAITING)
    async with engine_at(path, codecs, after) as engine:
        await engine.get("departs").signal(word, SECRET)
        with pytest.raises(DriftError) as drift:
            await engine.get("departs").result()
        assert SECRET not in str(drift.value)
        log = [event async for event in engine.get("departs").events()]
        refusal = next(event for event in log if event.kind == Kind.DRIFT_FOUND)
        assert SECRET in refusal.payload.decode()  # who has the key is told what was found
    assert_unreadable(path)


@in_loop
async def test_the_secret_would_be_found_where_nothing_is_encrypted(path):
    async with engine_at(path, [Zstandard(above=1_000_000)], pays) as engine:
        await engine.run(pays, Card(SECRET))
    with pytest.raises(AssertionError):
        assert_unreadable(path)


@in_loop
async def test_a_run_goes_on_in_another_process_and_a_fork_and_a_resume_read_what_was_written(path):
    codecs = [Zstandard(), Encryption(new_key())]
    async with engine_at(path, codecs, before) as engine:
        await engine.enqueue(before, Card(SECRET), run_id="r")
        await in_status(engine, "r", Status.WAITING)
        with pytest.raises(RunConflict) as conflict:
            await engine.enqueue(before, Card("another"), run_id="r")
        assert SECRET in str(conflict.value)
        assert (await engine.enqueue(before, Card(SECRET), run_id="r")).run_id == "r"
    async with engine_at(path, codecs, before) as engine:
        await engine.get("r").signal(word, LARGE)
        assert await engine.get("r", before).result() == SECRET + LARGE
        fork = await engine.get("r", before).fork("copies", run_id="f")
        await fork.signal(word, "!")
        assert await fork.result() == SECRET + "!"
    with closing(coded(open_store(path), codecs)) as store:
        for run_id in ("r", "f"):
            row = store.get_run(run_id)
            assert verify_run(store, row).damage == []


@in_loop
async def test_hooks_and_followers_see_what_was_written(path):
    heard = []

    class Hears(Hooks):
        def step_completed(self, notice):
            heard.append(notice.value)

        def step_failed(self, notice):
            heard.append(str(notice.error))

    async with engine_at(path, [Encryption(new_key())], pays, fails, hooks=[Hears()]) as engine:
        await engine.run(pays, Card(SECRET))
        with pytest.raises(Refused):
            await engine.run(fails, Card(SECRET))
    assert heard == [f"charged {SECRET}", f"no {SECRET}", f"no {SECRET}"]


@in_loop
async def test_what_was_written_before_there_were_codecs_and_after_is_read_alike(path):
    async with engine_at(path, [], before) as engine:
        await engine.enqueue(before, Card(SECRET), run_id="r")
        await in_status(engine, "r", Status.WAITING)
    async with engine_at(path, [Zstandard(above=1)], before) as engine:
        await engine.get("r").signal(word, LARGE)
        assert await engine.get("r", before).result() == SECRET + LARGE
    async with engine_at(path, [], before) as engine:  # compression needs no setting to be read
        assert await engine.get("r", before).result() == SECRET + LARGE


@in_loop
async def test_who_has_no_key_neither_executes_nor_writes_nor_harms_anything(path):
    key = new_key()
    async with engine_at(path, [Encryption(key)], before) as engine:
        await engine.enqueue(before, Card(SECRET), run_id="r")
        await in_status(engine, "r", Status.WAITING)
    for codecs in ([], [Encryption(new_key())]):
        with pytest.raises(CodecMissing):
            async with engine_at(path, codecs, before):
                pass
        with pytest.raises(CodecMissing):
            async with engine_at(path, codecs).client():
                pass
    async with engine_at(path, [Encryption([new_key(), key])], before) as engine:
        pass
    async with engine_at(path, [Encryption(key)], before) as engine:
        await engine.get("r").signal(word, "!")
        assert await engine.get("r", before).result() == SECRET + "!"


@workflow
async def asks(text: str) -> str:
    return await copies(text) + await word.wait()


class Upper:
    """A codec of the user's, of arguments and failures only."""

    name = "upper"

    def encode(self, data):
        return data.swapcase() if data[:1] == b"{" else None

    def decode(self, data):
        return data.swapcase()


@in_loop
async def test_a_run_whose_codec_is_not_here_is_blocked_and_goes_on_when_it_is(path):
    async with engine_at(path, [Upper()], asks) as engine:
        await engine.enqueue(asks, SECRET, run_id="r")
        await in_status(engine, "r", Status.WAITING)
    async with engine_at(path, [], asks) as engine:
        await engine.get("r").signal(word, "!")
        with pytest.raises((RunBlocked, DriftError), match="codec 'upper', which is not here"):
            await engine.get("r").result()
    async with engine_at(path, [Upper()], asks) as engine:
        await engine.get("r").resume()
        assert await engine.get("r", asks).result() == SECRET + "!"


@in_loop
async def test_a_history_is_exported_readable_and_replays_without_a_key(path):
    codecs = [Zstandard(), Encryption(new_key())]
    async with engine_at(path, codecs, everything, pays, fails) as engine:
        await (await engine.enqueue(everything, Card(SECRET), run_id="main")).signal(word, LARGE)
        await engine.get("main").result()
    with closing(coded(open_store(path), codecs)) as store:
        for row in store.list_runs(Filter()):
            events = store.read_events(row.run_key)
            chain.check(row.uid, events)
            plain, artifacts = histories.uncoded(row, events, store.get_artifact, codecs_of(store))
            document = histories.dump(row, plain, artifacts.get)
            read = histories.read(document)
            chain.check(row.uid, read.events)
            assert not any(event.codec & 2 for event in read.events)
            assert [event.kind for event in read.events] == [event.kind for event in events]
            assert set(read.artifacts) == histories.referenced(read.events)


@in_loop
async def test_a_schedule_keeps_its_large_input_and_is_not_changed_by_being_registered_again(path):
    codecs, clock = [Encryption(new_key())], Clock()
    for _ in range(2):
        async with engine_at(path, codecs, pays, clock=clock) as engine:
            schedule = await engine.schedule(pays, Card(LARGE), key="s", every="1h")
            again = await engine.schedule(pays, Card(LARGE), key="s", every="1h")
            row = rows_of(path, "SELECT change FROM schedules")
            assert again.key == schedule.key
    assert row == [(1,)]
    async with engine_at(path, codecs, pays, clock=clock) as engine:
        run = await engine.get_schedule("s", pays).trigger()
        assert await run.result() == f"charged {LARGE}"
    assert len(rows_of(path, "SELECT hash FROM artifacts")) <= 8
    assert_unreadable(path)


@pytest.mark.only("sqlite")
def test_a_workflow_behind_codecs_survives_every_crash(monkeypatch):
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", new_key())
    monkeypatch.setenv("PERDURE_COMPRESS", "1")
    explored = explore_crashes(everything, Card(SECRET), signals=[(word, LARGE)])
    assert explored
