from __future__ import annotations

import asyncio
import datetime as dt
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import perdure
from perdure import parallel, sleep, sleep_until, step
from perdure.errors import ColourError, DefinitionError
from tests.definitions.tiny import in_sync_run


class Probe:
    """Calls that settle when told to, and note what became of them."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.ends: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    async def call(self, name: str, error: BaseException | None = None, on_cancel: BaseException | None = None) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate(name).wait()
            if error is not None:
                raise error
        except asyncio.CancelledError:
            self.ends.append(f"{name} cancelled")
            if on_cancel is not None:
                raise on_cancel from None
            await asyncio.sleep(0)  # cleaning up takes a turn
            self.ends.append(f"{name} cleaned")
            raise
        finally:
            self.running -= 1
        self.ends.append(name)
        return name


async def turns(n: int = 10) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


class TestParallel:
    def test_of_nothing_is_nothing(self) -> None:
        assert asyncio.run(parallel()) == ()

    def test_results_come_in_the_order_of_the_calls(self) -> None:
        async def main() -> None:
            probe = Probe()
            calls = asyncio.ensure_future(parallel(probe.call("a"), probe.call("b")))
            await turns()
            probe.gate("b").set()
            await turns()
            assert not calls.done()
            probe.gate("a").set()
            assert await calls == ("a", "b")
            assert probe.ends == ["b", "a"]

        asyncio.run(main())

    def test_one_future_may_be_given_twice(self) -> None:
        async def main() -> None:
            future = asyncio.ensure_future(asyncio.sleep(0, "x"))
            assert await parallel(future, future) == ("x", "x")

        asyncio.run(main())

    def test_the_first_failure_cancels_the_rest_and_is_raised_when_all_have_settled(self) -> None:
        async def main() -> None:
            probe, failure = Probe(), ValueError("b broke")
            calls = asyncio.ensure_future(
                parallel(probe.call("a"), probe.call("b", failure), probe.call("c", on_cancel=KeyError("c too")))
            )
            await turns()
            probe.gate("b").set()
            with pytest.raises(ValueError, match="b broke") as caught:
                await calls
            assert caught.value is failure
            assert failure.__notes__ == ["also failed: KeyError: 'c too'"]
            assert probe.ends == ["a cancelled", "c cancelled", "a cleaned"]
            assert probe.running == 0

        asyncio.run(main())

    def test_of_two_failures_the_one_that_settled_first_is_raised(self) -> None:
        async def main() -> None:
            probe = Probe()
            calls = asyncio.ensure_future(parallel(probe.call("a", ValueError("a")), probe.call("b", ValueError("b"))))
            await turns()
            probe.gate("b").set()
            probe.gate("a").set()
            with pytest.raises(ValueError, match=r"^b") as caught:
                await calls
            assert caught.value.__notes__ == ["also failed: ValueError: a"]

        asyncio.run(main())

    def test_outcomes_can_be_asked_for(self) -> None:
        async def main() -> None:
            probe, failure = Probe(), ValueError("b broke")
            cancelled = asyncio.ensure_future(probe.call("c"))
            calls = asyncio.ensure_future(
                parallel(probe.call("a"), probe.call("b", failure), cancelled, return_exceptions=True)
            )
            await turns()
            probe.gate("b").set()
            cancelled.cancel()
            await turns()
            assert not calls.done()
            probe.gate("a").set()
            a, b, c = await calls
            assert (a, b) == ("a", failure)
            assert isinstance(c, asyncio.CancelledError)

        asyncio.run(main())

    @pytest.mark.parametrize("keep_going", [True, False])
    def test_cancelling_the_caller_cancels_all_and_waits_for_them(self, keep_going: bool) -> None:
        async def main() -> None:
            probe = Probe()
            calls = asyncio.ensure_future(parallel(probe.call("a"), probe.call("b"), return_exceptions=keep_going))
            await turns()
            calls.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calls
            assert probe.ends == ["a cancelled", "b cancelled", "a cleaned", "b cleaned"]

        asyncio.run(main())

    def test_a_failure_never_swallows_a_cancellation(self) -> None:
        async def main() -> None:
            probe = Probe()
            calls = asyncio.ensure_future(parallel(probe.call("a", on_cancel=ValueError("late")), probe.call("b")))
            await turns()
            calls.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calls

        asyncio.run(main())

    def test_a_timeout_around_it_is_a_timeout(self) -> None:
        async def main() -> None:
            probe = Probe()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await parallel(probe.call("a"), probe.call("b"))
            assert probe.running == 0

        asyncio.run(main())

    @pytest.mark.parametrize("wrong", [3, b"x", asyncio.sleep], ids=["number", "bytes", "function"])
    def test_what_cannot_be_awaited_is_refused_and_nothing_begins(self, wrong: Any) -> None:
        async def main() -> None:
            probe = Probe()
            with pytest.raises(DefinitionError) as caught:
                parallel(probe.call("a"), wrong)
            assert ".aio(" in caught.value.advice
            await turns()
            assert probe.most == 0

        asyncio.run(main())

    def test_leaving_memory_waits_for_nothing(self) -> None:
        async def main() -> None:
            probe = Probe()
            calls = parallel(probe.call("a"))
            calls.send(None)
            calls.close()  # what eviction does
            assert probe.ends == []
            probe.gate("a").set()
            await turns()

        asyncio.run(main())


@step
async def double(x: int) -> int:
    await asyncio.sleep(0)
    return 2 * x


class TestMap:
    def test_results_come_in_the_order_of_the_items(self) -> None:
        async def items() -> AsyncIterator[int]:
            for n in range(20):
                yield n

        expected = [2 * n for n in range(20)]
        assert asyncio.run(perdure.map(double, range(20), limit=3)) == expected
        assert asyncio.run(perdure.map(double, items(), limit=3)) == expected
        assert asyncio.run(perdure.map(double, [])) == []

    @pytest.mark.parametrize("is_async", [True, False])
    @pytest.mark.parametrize("limit", [1, 3])
    def test_no_more_than_limit_run_and_items_are_taken_when_there_is_room(self, limit: int, is_async: bool) -> None:
        probe = Probe()
        taken: list[int] = []

        def numbers() -> Iterator[int]:
            for n in itertools.count():
                taken.append(n)
                yield n

        async def async_numbers() -> AsyncIterator[int]:
            for n in numbers():
                yield n

        @step
        async def call(n: int) -> str:
            return await probe.call(str(n))

        async def main() -> None:
            calls = asyncio.ensure_future(perdure.map(call, async_numbers() if is_async else numbers(), limit=limit))
            await turns()
            assert taken == list(range(limit))
            probe.gate("0").set()
            await turns()
            assert taken == list(range(limit + 1))
            calls.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calls
            assert probe.most == limit
            assert probe.running == 0

        asyncio.run(main())

    @pytest.mark.parametrize("is_async", [True, False])
    def test_a_failure_ends_it_even_while_the_next_item_is_long_in_coming(self, is_async: bool) -> None:
        closed: list[str] = []

        async def slow_items() -> AsyncIterator[int]:
            try:
                yield 1
                await asyncio.Event().wait()
            finally:
                closed.append("closed")

        @step
        async def fail(n: int) -> None:
            await asyncio.sleep(0)
            raise ValueError(n)

        with pytest.raises(ValueError, match="1"):
            asyncio.run(perdure.map(fail, slow_items() if is_async else iter([1, 2, 3]), limit=2))
        assert closed == (["closed"] if is_async else [])

    def test_an_error_of_the_items_cancels_what_runs(self) -> None:
        probe = Probe()

        def broken() -> Iterator[int]:
            yield 1
            raise KeyError

        @step
        async def call(n: int) -> str:
            return await probe.call(str(n))

        with pytest.raises(KeyError):
            asyncio.run(perdure.map(call, broken()))
        assert probe.running == 0

    @pytest.mark.parametrize(
        ("fn", "items", "options"),
        [
            (len, [1], {}),
            (double, 3, {}),
            (double, [1], {"limit": 0}),
            (double, [1], {"limit": True}),
            (double, [1], {"limit": 1.5}),
        ],
        ids=repr,
    )
    def test_wrong_arguments_are_refused(self, fn: Any, items: Any, options: dict[str, Any]) -> None:
        with pytest.raises(DefinitionError):
            perdure.map(fn, items, **options)

    def test_a_wrong_key_is_refused(self) -> None:
        with pytest.raises(DefinitionError):
            asyncio.run(perdure.map(double, [1], key=lambda n: f"{n}/"))


class TestSleep:
    @pytest.mark.parametrize("wrong", ["soon", -1, float("nan"), float("inf"), True, None], ids=repr)
    def test_what_is_no_duration_is_refused_when_called(self, wrong: Any) -> None:
        with pytest.raises(DefinitionError):
            sleep(wrong)

    def test_the_longest_duration_there_is_can_be_slept(self) -> None:
        async def main() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await sleep(dt.timedelta.max)

        asyncio.run(main())

    def test_until_an_instant_that_is_past_is_at_once(self) -> None:
        asyncio.run(sleep_until(dt.datetime.min.replace(tzinfo=dt.UTC)))

    def test_until_an_instant_to_come_waits_for_it(self) -> None:
        async def main() -> None:
            when = perdure.now() + dt.timedelta(milliseconds=20)
            await sleep_until(when)
            assert perdure.now() >= when

        asyncio.run(main())

    @pytest.mark.parametrize("wrong", [dt.datetime(2030, 1, 1), dt.date(2030, 1, 1), "2030-01-01", 3], ids=repr)  # noqa: DTZ001 - naive on purpose
    def test_only_aware_datetimes_are_instants(self, wrong: Any) -> None:
        with pytest.raises(DefinitionError):
            sleep_until(wrong)


@pytest.mark.parametrize(
    "call",
    [parallel, lambda: perdure.map(double, [1]), lambda: sleep(1), lambda: sleep_until(perdure.now())],
    ids=["parallel", "map", "sleep", "sleep_until"],
)
def test_in_a_sync_workflow_the_blocking_spelling_is_named(call: Callable[[], object]) -> None:
    with pytest.raises(ColourError) as caught:
        in_sync_run(call)
    assert "perdure.sync" in caught.value.advice
