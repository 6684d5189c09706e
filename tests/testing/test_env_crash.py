from __future__ import annotations

import asyncio
import threading

import pytest

from perdure.errors import RunBlocked
from perdure.testing import RunNotFinished, env
from tests.testing import shop
from tests.testing.shop import add, approved, charge, hangs, label


def test_what_was_committed_is_there_after_a_crash_and_handles_and_overrides_stay_good():
    with env(workflows=[shop.order]) as kit:
        kit.override(charge, "paid")
        handle = kit.start(shop.order, 5)
        kit.idle()
        before = kit.engine
        handle.signal(approved, True)
        kit.crash()
        assert kit.engine is not before
        with pytest.raises(RunNotFinished):
            handle.result()
        kit.crash()
        kit.advance("14d")
        assert handle.result() == "paid"
        assert kit.ran(charge).count == 1


def test_a_body_that_was_under_way_runs_again_with_the_same_attempt_and_key():
    async def main():
        begun = asyncio.Event()
        ended = []

        async def hanging(n):
            begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(n)

        async with env(workflows=[shop.holds]) as kit:
            with kit.override(hangs, hanging):
                handle = await kit.start(shop.holds, 7)
                await begun.wait()
                view = await handle.view()
                assert "step_failed" not in str(view)
                await asyncio.wait_for(_crash(kit, kit.override(hangs, lambda n: n * 2)), 30)
            assert ended == [7]
            assert await handle.result() == 15
            first, second = kit.ran(hangs).calls
            assert (first.attempt, second.attempt) == (1, 1)
            assert first.idempotency_key == second.idempotency_key
            assert kit.ran(add).count == 1

    asyncio.run(main())


async def _crash(kit, _override):
    await kit.crash()


def test_who_waits_for_a_run_goes_on_waiting_in_the_next_process():
    async def main():
        begun = asyncio.Event()

        async def hanging(n):
            begun.set()
            await asyncio.get_running_loop().create_future()

        async with env(workflows=[shop.holds]) as kit:
            kit.override(hangs, hanging)
            running = asyncio.create_task(kit.run(shop.holds, 7))
            await begun.wait()
            begun.clear()
            await kit.crash()
            await begun.wait()
            kit.override(hangs, 20)
            await kit.crash()
            return await running

    assert asyncio.run(main()) == 21


def test_a_sync_body_is_asked_to_end_and_what_it_returns_is_nobodys():
    begun = threading.Event()

    def patient(amount, *, ctx):
        begun.set()
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        return b"too late"

    from perdure import INJECTED

    def fake(amount, *, ctx=INJECTED):
        return patient(amount, ctx=ctx)

    with env(workflows=[shop.both]) as kit:
        kit.override(charge, "paid")
        kit.override(label, fake)
        handle = kit.start(shop.both, 5)
        assert begun.wait(30)
        kit.override(label, b"in time")
        kit.crash()
        assert handle.result() == ("paid", b"in time")


def test_nothing_of_the_dead_process_is_written_any_more():
    """The body catches its cancellation and returns: too late, the run is another's."""

    async def main():
        begun = asyncio.Event()

        async def stubborn(n):
            begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                return 1000

        async with env(workflows=[shop.holds]) as kit:
            kit.override(hangs, stubborn)
            handle = await kit.start(shop.holds, 7)
            await begun.wait()
            kit.override(hangs, 1)
            await kit.crash()
            return await handle.result()

    assert asyncio.run(main()) == 2


def test_a_run_that_keeps_killing_its_process_is_blocked():
    async def main():
        begun = asyncio.Event()

        async def hanging(n):
            begun.set()
            await asyncio.get_running_loop().create_future()

        async with env(workflows=[shop.holds], crash_cap=2) as kit:
            kit.override(hangs, hanging)
            handle = await kit.start(shop.holds, 7)
            for _ in range(2):
                await begun.wait()
                begun.clear()
                await kit.crash()
            with pytest.raises(RunBlocked):
                await handle.result()

    asyncio.run(main())


def test_a_sync_workflow_goes_on_after_a_crash():
    with env(workflows=[shop.in_sync]) as kit:
        kit.override(charge, "paid")
        kit.override(label, b"12")
        handle = kit.start(shop.in_sync, 5)
        kit.idle()
        kit.crash()
        kit.advance("1d")
        assert handle.result() == "paid 2"
        assert kit.ran(charge).count == 1
