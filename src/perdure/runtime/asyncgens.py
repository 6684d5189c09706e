"""Async generators of workflows: closed in a fixed order, and never scheduled from the garbage collector.

The interpreter keeps one pair of hooks per thread. The pair here asks which loop is running: a run's generators are
noted with it, everyone else's go to the hooks that the host's loop had set.
"""

from __future__ import annotations

import sys
import weakref
from asyncio import AbstractEventLoop, events
from typing import TYPE_CHECKING, Any
from warnings import warn
from weakref import WeakSet

from perdure.context import RunLoopBase
from perdure.errors import RunGone
from perdure.runtime.running import give_back, take_over

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

_ours: set[int] = set()
"""ids of generators first iterated on a run's loop; stale ones are dropped when the id is seen again."""

_hooks: WeakSet[object] = WeakSet()
"""First-iteration hooks that are ours."""


class _GoneRun:
    """The run of code that is being thrown away: whatever it asks of Perdure raises ``RunGone``."""

    def __getattr__(self, name: str) -> Any:
        raise RunGone


class _GoneLoop(RunLoopBase):
    """The running loop while a dropped generator closes."""

    run: Any = _GoneRun()

    def is_closed(self) -> bool:
        return True


_GONE = _GoneLoop()  # type: ignore[abstract]  # nothing of a loop is needed


class Opened:
    """The async generators of one run that are still open, in the order in which they were first iterated."""

    __slots__ = ("_refs",)

    def __init__(self) -> None:
        self._refs: dict[int, weakref.ref[AsyncGenerator[Any, Any]]] = {}

    def add(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Note a generator on its first iteration."""
        if len(self._refs) > 64:  # noqa: PLR2004 - now and then
            self._refs = {key: ref for key, ref in self._refs.items() if ref() is not None}
        self._refs.pop(id(generator), None)  # of one that is no more
        self._refs[id(generator)] = weakref.ref(generator)

    def close(self) -> None:
        """Close what is open, in order; Perdure calls in their ``finally`` raise ``RunGone``."""
        refs, self._refs = self._refs, {}
        for ref in refs.values():
            generator = ref()
            if generator is not None:
                _ours.discard(id(generator))
                _close(generator)


def install() -> Callable[[], None]:
    """Put the hooks in place on this thread, in front of those of the host's loop; returns what undoes it."""
    before = sys.get_asyncgen_hooks()
    if before.firstiter in _hooks:
        return _nothing

    def first_iteration(generator: AsyncGenerator[Any, Any]) -> None:
        loop: AbstractEventLoop | None = events._get_running_loop()
        if isinstance(loop, RunLoopBase):
            _ours.add(id(generator))
            loop.asyncgens.add(generator)
            return
        _ours.discard(id(generator))
        if before.firstiter is not None:
            before.firstiter(generator)

    def finalize(generator: AsyncGenerator[Any, Any]) -> None:
        if id(generator) in _ours:
            _ours.discard(id(generator))
            warn(
                f"async generator {getattr(generator, '__qualname__', generator)} of a workflow was dropped half-way; "
                "wrap it in contextlib.aclosing so that it is closed where you stop using it",
                ResourceWarning,
                stacklevel=2,
            )
            _close(generator)
        elif before.finalizer is not None:
            before.finalizer(generator)

    _hooks.add(first_iteration)
    sys.set_asyncgen_hooks(firstiter=first_iteration, finalizer=finalize)

    def restore() -> None:
        if sys.get_asyncgen_hooks().firstiter is first_iteration:
            sys.set_asyncgen_hooks(*before)

    return restore


def _nothing() -> None:
    pass


def _close(generator: AsyncGenerator[Any, Any]) -> None:
    """Close a generator on the spot; whatever it awaits raises."""
    before = take_over(_GONE)
    try:
        closing = generator.aclose()
        try:
            closing.send(None)
        except BaseException:  # noqa: BLE001 - StopIteration is the good end; anything else has nobody to go to
            return
        closing.close()
    except BaseException:  # noqa: BLE001, S110 - it awaited while closing: dropped
        pass
    finally:
        give_back(before)
