"""Waiting for several calls, and for time: plain asyncio, so deterministic and durable on a run's loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Awaitable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, overload

from perdure.context import current_fiber, now
from perdure.errors import ColourError, DefinitionError
from perdure.model.durations import instant, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import datetime
    from typing import Self

    from perdure.model.durations import Duration

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
T6 = TypeVar("T6")
R_co = TypeVar("R_co", covariant=True)
ItemT = TypeVar("ItemT")
ItemT_contra = TypeVar("ItemT_contra", contravariant=True)

Call: TypeAlias = Awaitable[T]
"""A coroutine, a step call or a future."""
Outcome: TypeAlias = T | BaseException
"""A result, or what was raised instead."""


class _Group:
    """Futures awaited together: none is left running, and unless ``keep_going`` the first failure cancels the rest."""

    def __init__(self, *, keep_going: bool = False) -> None:
        self.aborted = False
        self._keep_going = keep_going
        self._running: dict[asyncio.Future[Any], None] = {}
        self._failed: list[asyncio.Future[Any]] = []
        self._waiters: list[asyncio.Future[None]] = []

    def add(self, call: Awaitable[T]) -> asyncio.Future[T]:
        """Start a call."""
        future = asyncio.ensure_future(call)
        if future not in self._running:
            self._running[future] = None
            future.add_done_callback(self._settled)
        return future

    def abort(self) -> None:
        """Ask everything that runs to stop."""
        self.aborted = True
        for future in list(self._running):
            future.cancel()

    def _settled(self, future: asyncio.Future[Any]) -> None:
        del self._running[future]
        # Callbacks come in the order in which the futures settled, so the first failure is the first in the log.
        if not self._keep_going and (future.cancelled() or future.exception() is not None):
            self._failed.append(future)
            if not self.aborted:
                self.abort()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _wait(self) -> None:
        """Wait until one more has settled."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)

    async def below(self, limit: int) -> None:
        """Wait until fewer than ``limit`` run, or one has failed."""
        while len(self._running) >= limit and not self.aborted:
            await self._wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Wait until nothing runs, then raise what has to be raised: a cancellation before the first failure."""
        if error is not None:
            if not isinstance(error, Exception | asyncio.CancelledError):
                return  # the run leaves memory: whatever was done now could not be recorded
            self.abort()
        cancelled: asyncio.CancelledError | None = None
        while self._running:
            try:
                await self._wait()
            except asyncio.CancelledError as late:
                cancelled = late
                self.abort()
        if cancelled is not None:
            raise cancelled
        if error is None and self._failed:
            self._raise_first()

    def _raise_first(self) -> None:
        first, *others = self._failed
        raised = None if first.cancelled() else first.exception()
        if raised is not None:
            for other in others:
                also = None if other.cancelled() else other.exception()
                if also is not None and also is not raised:
                    raised.add_note(f"also failed: {type(also).__name__}: {also}")
        first.result()


@overload
def parallel(*, return_exceptions: bool = False) -> Coroutine[object, None, tuple[()]]: ...
@overload
def parallel(c1: Call[T1], /, *, return_exceptions: Literal[False] = False) -> Coroutine[object, None, tuple[T1]]: ...
@overload
def parallel(
    c1: Call[T1], c2: Call[T2], /, *, return_exceptions: Literal[False] = False
) -> Coroutine[object, None, tuple[T1, T2]]: ...
@overload
def parallel(
    c1: Call[T1], c2: Call[T2], c3: Call[T3], /, *, return_exceptions: Literal[False] = False
) -> Coroutine[object, None, tuple[T1, T2, T3]]: ...
@overload
def parallel(
    c1: Call[T1], c2: Call[T2], c3: Call[T3], c4: Call[T4], /, *, return_exceptions: Literal[False] = False
) -> Coroutine[object, None, tuple[T1, T2, T3, T4]]: ...
@overload
def parallel(
    c1: Call[T1],
    c2: Call[T2],
    c3: Call[T3],
    c4: Call[T4],
    c5: Call[T5],
    /,
    *,
    return_exceptions: Literal[False] = False,
) -> Coroutine[object, None, tuple[T1, T2, T3, T4, T5]]: ...
@overload
def parallel(
    c1: Call[T1],
    c2: Call[T2],
    c3: Call[T3],
    c4: Call[T4],
    c5: Call[T5],
    c6: Call[T6],
    /,
    *,
    return_exceptions: Literal[False] = False,
) -> Coroutine[object, None, tuple[T1, T2, T3, T4, T5, T6]]: ...
@overload
def parallel(*calls: Call[T], return_exceptions: Literal[False] = False) -> Coroutine[object, None, tuple[T, ...]]: ...  # type: ignore[overload-overlap]
@overload
def parallel(c1: Call[T1], /, *, return_exceptions: bool) -> Coroutine[object, None, tuple[Outcome[T1]]]: ...
@overload
def parallel(
    c1: Call[T1], c2: Call[T2], /, *, return_exceptions: bool
) -> Coroutine[object, None, tuple[Outcome[T1], Outcome[T2]]]: ...
@overload
def parallel(
    c1: Call[T1], c2: Call[T2], c3: Call[T3], /, *, return_exceptions: bool
) -> Coroutine[object, None, tuple[Outcome[T1], Outcome[T2], Outcome[T3]]]: ...
@overload
def parallel(
    c1: Call[T1], c2: Call[T2], c3: Call[T3], c4: Call[T4], /, *, return_exceptions: bool
) -> Coroutine[object, None, tuple[Outcome[T1], Outcome[T2], Outcome[T3], Outcome[T4]]]: ...
@overload
def parallel(
    c1: Call[T1], c2: Call[T2], c3: Call[T3], c4: Call[T4], c5: Call[T5], /, *, return_exceptions: bool
) -> Coroutine[object, None, tuple[Outcome[T1], Outcome[T2], Outcome[T3], Outcome[T4], Outcome[T5]]]: ...
@overload
def parallel(
    c1: Call[T1], c2: Call[T2], c3: Call[T3], c4: Call[T4], c5: Call[T5], c6: Call[T6], /, *, return_exceptions: bool
) -> Coroutine[object, None, tuple[Outcome[T1], Outcome[T2], Outcome[T3], Outcome[T4], Outcome[T5], Outcome[T6]]]: ...
@overload
def parallel(*calls: Call[T], return_exceptions: bool) -> Coroutine[object, None, tuple[Outcome[T], ...]]: ...
def parallel(*calls: Call[Any], return_exceptions: bool = False) -> Coroutine[object, None, tuple[Any, ...]]:
    """Wait for several calls at once, and for all of them to settle.

    The first failure cancels the others (what they had committed stays) and is raised as itself when all have
    settled; failures that came after it are noted on it. If the caller is cancelled, so are all calls.

    Args:
        calls: coroutines, step calls or futures.
        return_exceptions: cancel nobody, and return exceptions in the places of results.

    Returns:
        The results in the order of the calls.

    Raises:
        ColourError: called in a sync workflow.
        DefinitionError: something cannot be awaited.
    """
    try:
        _refuse_fiber("parallel", "perdure.sync.parallel(lambda: …, lambda: …)")
        _check_awaitable(calls)
    except Exception:
        for call in calls:
            if inspect.iscoroutine(call):
                call.close()
        raise
    return _parallel(calls, return_exceptions=return_exceptions)


def _check_awaitable(calls: tuple[object, ...]) -> None:
    for call in calls:
        if not inspect.isawaitable(call):
            raise DefinitionError(
                f"parallel() takes calls that can be awaited, not {call!r}", advice="of a sync step, write name.aio(…)"
            )


async def _parallel(calls: tuple[Awaitable[Any], ...], *, return_exceptions: bool) -> tuple[Any, ...]:
    async with _Group(keep_going=return_exceptions) as group:
        futures = [group.add(call) for call in calls]
    return tuple(_outcome(future) if return_exceptions else future.result() for future in futures)


def _outcome(future: asyncio.Future[Any]) -> Any:
    try:
        return future.exception() or future.result()
    except asyncio.CancelledError as error:
        return error


class Mappable(Protocol[ItemT_contra, R_co]):
    """What ``map`` applies: a step or a workflow of one argument."""

    def aio(self, item: ItemT_contra, /) -> Coroutine[object, None, R_co]:
        """Call it."""
        ...

    def with_options(self, *, key: str | None = None) -> Self:
        """Return it with an explicit key."""
        ...


def map(
    fn: Mappable[ItemT, R_co],
    items: Iterable[ItemT] | AsyncIterable[ItemT],
    *,
    limit: int = 32,
    key: Callable[[ItemT], str] | None = None,
) -> Coroutine[object, None, list[R_co]]:
    """Call a step or a workflow for every item, several at once.

    Failures and cancellation are as with ``parallel``; after a failure no further item is taken.

    Args:
        fn: a step or workflow of one argument.
        items: where items are taken from, each when there is room for it; it may be an async iterable.
        limit: how many calls may run at once.
        key: makes an explicit key of an item, for items whose order may change.

    Returns:
        The results in the order of the items.

    Raises:
        ColourError: called in a sync workflow.
        DefinitionError: ``fn`` is no step or workflow, ``items`` cannot be iterated, or ``limit`` is not positive.
    """
    _refuse_fiber("map", "perdure.sync.parallel(…) or a plain loop")
    if not (hasattr(fn, "aio") and hasattr(fn, "with_options")):
        raise DefinitionError(f"map() applies a step or a workflow, not {fn!r}", advice="decorate it with @step")
    if not isinstance(items, Iterable | AsyncIterable):
        raise DefinitionError(f"map() takes items that can be iterated, not {items!r}")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise DefinitionError(f"limit={limit!r} is not a number of calls", advice="write limit=1 or more")
    return _map(fn, items, limit, key)


async def _map(
    fn: Mappable[ItemT, R_co],
    items: Iterable[ItemT] | AsyncIterable[ItemT],
    limit: int,
    key: Callable[[ItemT], str] | None,
) -> list[R_co]:
    futures: list[asyncio.Future[R_co]] = []
    async with _Group() as group:

        def start(item: ItemT) -> None:
            one = fn if key is None else fn.with_options(key=key(item))
            futures.append(group.add(one.aio(item)))

        if isinstance(items, AsyncIterable):
            # In a task of the group, as the next item may be long in coming when a call fails. It counts as one.
            _ = group.add(_feed_async(group, items, limit + 1, start))
        else:
            await _feed(group, items, limit, start)
    return [future.result() for future in futures]


async def _feed(group: _Group, items: Iterable[ItemT], limit: int, start: Callable[[ItemT], None]) -> None:
    iterator = iter(items)
    while not group.aborted:
        try:
            item = next(iterator)
        except StopIteration:
            return
        start(item)
        await group.below(limit)


async def _feed_async(group: _Group, items: AsyncIterable[ItemT], limit: int, start: Callable[[ItemT], None]) -> None:
    iterator = aiter(items)
    try:
        async for item in iterator:
            start(item)
            await group.below(limit)
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()


def sleep(duration: Duration) -> Coroutine[object, None, None]:
    """Wait; in a workflow durably: it survives restarts, and nothing stays in memory meanwhile.

    Args:
        duration: a timedelta, text such as "14d", or seconds.

    Raises:
        ColourError: called in a sync workflow.
        DefinitionError: it is no duration.
    """
    _refuse_fiber("sleep", "perdure.sync.sleep(…)")
    return asyncio.sleep(seconds(duration))


def sleep_until(when: datetime) -> Coroutine[object, None, None]:
    """Wait until an instant (an aware datetime), in a workflow durably; not at all if it is past.

    Raises:
        ColourError: called in a sync workflow.
        DefinitionError: it is no datetime, or a naive one.
    """
    _refuse_fiber("sleep_until", "perdure.sync.sleep(…)")
    instant(when)
    return _sleep_until(when)


async def _sleep_until(when: datetime) -> None:
    # More than once only where a clock was set back, or a timer came early by a rounding.
    while (left := (when - now()).total_seconds()) > 0:  # noqa: ASYNC110 - it waits for an instant, not for an event
        await asyncio.sleep(left)


# A coroutine's name is part of the keys of what it calls when a workflow makes it a task.
_parallel.__qualname__ = "parallel"
_map.__qualname__ = "map"
_feed_async.__qualname__ = "items"
_sleep_until.__qualname__ = "sleep_until"


def _refuse_fiber(name: str, spelling: str) -> None:
    if current_fiber() is not None:
        raise ColourError(f"{name}() was called in a sync workflow", advice=f"write {spelling}")
