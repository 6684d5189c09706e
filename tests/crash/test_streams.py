"""Whoever follows logs and streams from another process misses nothing, whatever dies, stops or comes meanwhile."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field

import pytest

from perdure import Emitted, Engine
from perdure.model.records import Event, Kind
from tests.crash.ledger import PATIENCE
from tests.crash.procs import Crew, audit, ended

pytestmark = pytest.mark.crash

RUNS = [f"r{n}" for n in range(6)]
LENGTH = 40
PIECE = 7
"""Values after which a reader goes away and comes back."""


@dataclass
class Followed:
    """What a process that executes nothing has seen of one run."""

    log: list[Event] = field(default_factory=list)
    story: list[Emitted[list[int]]] = field(default_factory=list)
    chapters: list[int] = field(default_factory=list)
    halfway: asyncio.Event = field(default_factory=asyncio.Event)


async def _follow(client: Engine, run_id: str, seen: Followed) -> None:
    handle = client.get(run_id)

    async def log() -> None:
        async for event in handle.events(follow=True):
            seen.log.append(event)
            if event.kind == Kind.PROGRESS:
                seen.halfway.set()

    async def story() -> None:
        after, is_over = 0, False
        while not is_over:
            piece = handle.stream("story", after=after)
            is_over = True
            async for item in piece:
                seen.story.append(item)
                after = item.seq
                if len(seen.story) % PIECE == 0:
                    is_over = False
                    break
            await piece.aclose()

    async def chapters() -> None:
        async for item in handle.stream("chapters"):
            seen.chapters.append(item.value)

    await asyncio.gather(log(), story(), chapters())


def test_a_follower_sees_each_committed_value_once_in_order_across_kills_and_restarts(crew: Crew) -> None:
    first, second = crew.worker(concurrency=3), crew.worker(concurrency=3, drain=0.0)
    crew.enqueue("narrating", LENGTH, *RUNS)

    async def follow() -> dict[str, Followed]:
        seen = {run_id: Followed() for run_id in RUNS}
        async with Engine(crew.store).client() as client, asyncio.timeout(PATIENCE):
            following = asyncio.gather(*(_follow(client, run_id, seen[run_id]) for run_id in RUNS))
            for followed in seen.values():
                await followed.halfway.wait()
            first.kill()
            third = await asyncio.to_thread(crew.worker, concurrency=3)
            second.terminate()
            assert await asyncio.to_thread(ended, second) == 0
            third.kill()
            await asyncio.to_thread(crew.worker, concurrency=6)
            await following
        return seen

    seen = asyncio.run(follow())
    entries = crew.ledger.entries()
    for run_id, followed in seen.items():
        log = crew.events(run_id)
        assert followed.log == log
        assert log[-1].kind == Kind.RUN_COMPLETED
        story = [event.seq for event in log if event.kind == Kind.EMITTED and event.attempt is not None]
        assert [item.seq for item in followed.story] == story
        assert followed.chapters == [0, 1, 2]
        for chapter in range(3):
            _is_told_whole_at_last([item.value[1] for item in followed.story if item.value[0] == chapter])
        audit(crew, run_id, entries)
        assert len(followed.story) >= 3 * LENGTH + LENGTH // 2, "nothing was cut short"


def _is_told_whole_at_last(values: list[int]) -> None:
    """Each telling goes on from 0 without a gap until it is cut short; the last one is complete."""
    starts = [n for n, value in enumerate(values) if value == 0]
    assert starts[0] == 0
    tellings = [values[a:b] for a, b in itertools.pairwise([*starts, len(values)])]
    assert all(telling == list(range(len(telling))) for telling in tellings)
    assert tellings[-1] == list(range(LENGTH))
