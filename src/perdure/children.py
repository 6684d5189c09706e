"""A child run in the hands of the workflow that has started it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar

from perdure.context import on_run
from perdure.model.durations import micros
from perdure.model.ids import valid_run_id
from perdure.model.keys import check_explicit
from perdure.model.starting import valid_priority, valid_tags
from perdure.queues import queue_name
from perdure.signals import cancellation, message
from perdure.steps import fiber_for_blocking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.model.durations import Duration
    from perdure.protocols import ChildLike
    from perdure.queues import Queue
    from perdure.signals import Signal

R = TypeVar("R")
T = TypeVar("T")


class ChildOptionsGiven(TypedDict, total=False):
    """What ``with_options`` of a workflow takes."""

    key: str | None
    run_id: str | None
    abandon: bool
    delay: Duration | None
    deadline: Duration | None
    tags: Mapping[str, str] | None
    queue: Queue | str | None
    priority: int | None
    partition: str | None


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """Options of one child run.

    Attributes:
        key: which child this is, instead of a number.
        run_id: its id, instead of one made of its parent's.
        abandon: it goes on when its parent is cancelled.
        delay: do not begin before this has passed.
        deadline: it is cancelled when this has passed.
        tags: kept with it and shown.
        queue: where it waits, instead of its workflow's.
        priority: instead of its parent's.
        partition: its partition key in that queue.
    """

    key: str | None = None
    run_id: str | None = None
    abandon: bool = False
    delay: Duration | None = None
    deadline: Duration | None = None
    tags: Mapping[str, str] | None = None
    queue: str | None = None
    priority: int | None = None
    partition: str | None = None

    def changed(self, given: ChildOptionsGiven) -> ChildOptions:
        """Return these options with others in their place.

        Raises:
            DefinitionError: one is wrong.
        """
        if (key := given.get("key")) is not None:
            check_explicit(key)
        if (run_id := given.get("run_id")) is not None:
            valid_run_id(run_id)
        if (tags := given.get("tags")) is not None:
            valid_tags(tags)
        if (delay := given.get("delay")) is not None:
            micros(delay, what="delay")
        if (deadline := given.get("deadline")) is not None:
            micros(deadline, what="deadline", allow_zero=False)
        if (priority := given.get("priority")) is not None:
            valid_priority(priority)
        if (partition := given.get("partition")) is not None:
            valid_run_id(partition, "partition")
        if (queue := given.get("queue")) is not None:
            given = {**given, "queue": queue_name(queue)}
        return replace(self, **given)  # type: ignore[arg-type]


class Child(Generic[R]):
    """A child run that ``workflow.start`` has started. Its methods are for the workflow that started it.

    Attributes:
        run_id: the child's id, with which any engine finds it.
    """

    __slots__ = ("_call", "_future", "run_id")

    def __init__(self, call: ChildLike) -> None:
        self.run_id = call.run_id
        self._call = call
        self._future: asyncio.Future[R] | None = None

    def __repr__(self) -> str:
        return f"<Child {self.run_id!r}>"

    async def result(self) -> R:
        """Wait for the child's end and return its result; for async workflows.

        Raises:
            Exception: what the child failed with.
            RunCancelled: it was cancelled.
        """
        if self._future is None:
            self._future = asyncio.ensure_future(self._call)
        return await asyncio.shield(self._future)

    def join(self) -> R:
        """Wait for the child's end and return its result, or raise as ``result`` does; for sync workflows."""
        fiber = fiber_for_blocking(repr(self), "await child.result()")
        if fiber is None:
            on_run(lambda run: run)  # raises: this is no workflow
            raise AssertionError
        return fiber.wait(self.result)

    def cancel(self, reason: str = "") -> None:
        """Ask the child to end."""
        asked = cancellation(reason)._replace(run_id=self.run_id)
        on_run(lambda run: run.send(asked))

    def signal(self, signal: Signal[T], value: T, *, idempotency_key: str | None = None) -> None:
        """Send the child a signal.

        Raises:
            NotSerializable: the message is not of the signal's type.
        """
        sent = message(signal, value, idempotency_key)._replace(run_id=self.run_id)
        on_run(lambda run: run.send(sent))


__all__ = ["Child", "ChildOptions"]
