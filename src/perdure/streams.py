"""Streams: values that a run's steps and its own code emit while it goes on, kept in its log in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from perdure.channels import Channel
from perdure.context import DEFAULT_STREAM, current_run, in_step, on_run, step_context
from perdure.errors import NotInRun

if TYPE_CHECKING:
    from datetime import datetime

    from perdure.protocols import StreamLike

T = TypeVar("T")


class Emitted(NamedTuple, Generic[T]):
    """One value of a stream.

    Attributes:
        seq: its place in the run's log; to go on after it, read with ``after=seq``.
        value: what was emitted.
        attempt: the attempt of the step that emitted it, from 1; None if the workflow's own code did. A step that is
            tried again may emit again: an attempt that was not the step's last may have come to nothing.
        key: the key of that step; or a key of its own.
        at: when it got its place in the log (aware, UTC).
    """

    seq: int
    value: T
    attempt: int | None
    key: str
    at: datetime


class Stream(Channel[T]):
    """The name of a stream and the type of its values: ``tokens = Stream[str]("tokens")``.

    ``tokens.emit(…)`` in a step or in workflow code, ``handle.stream(tokens)`` wherever it is read.

    Attributes:
        name: what it is called in the log.
    """

    def emit(self, value: T) -> None:
        """Emit a value; see ``perdure.emit``."""
        emit(value, self)


def emit(value: object, stream: str | StreamLike = DEFAULT_STREAM) -> None:
    """Add a value to a stream of this run; ``handle.stream`` gives it to whoever reads, in any process.

    In a step it is what ``ctx.emit`` does: an attempt that is repeated emits again. In workflow code the value is
    emitted once: a replay passes by, whatever the code would emit now. It is a plain call, in async and in sync code.
    Readers see it once it is committed, which happens together with what else the run writes.

    Args:
        value: any value a step could return.
        stream: the name of the stream, or the stream itself.

    Raises:
        NotSerializable: the value cannot be stored exactly.
        DefinitionError: the name is empty, too long or has characters that keys reserve.
        NotInRun: neither a step nor workflow code is calling, or the attempt has ended.
    """
    if in_step():
        step_context().emit(value, stream)
        return
    if current_run() is None:
        raise NotInRun(
            "values are emitted by steps and workflow code of a run, and none is executing here",
            advice="in a thread of your own, use the ctx of the step that started it: ctx.emit(…)",
        )
    on_run(lambda run: run.emit(value, stream))


__all__ = ["Emitted", "Stream", "emit"]
