"""Signals: what a run waits for from outside. Whoever has its id can send one, before it waits or while it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.channels import Channel
from perdure.context import MISSING, in_step
from perdure.errors import DefinitionError, NotInRun
from perdure.model import payloads
from perdure.model.codec import ValueCodec
from perdure.model.durations import seconds
from perdure.model.ids import valid_run_id
from perdure.model.keys import check_explicit
from perdure.model.records import InboxKind, Message
from perdure.steps import fiber_for_blocking, run_for_coroutine

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from perdure.model.durations import Duration

T = TypeVar("T")
D = TypeVar("D")

_ANY = ValueCodec(Any)


class Signal(Channel[T]):
    """The name of a signal and the type of its message: ``approved = Signal[bool]("approved")``.

    ``await approved.wait()`` in a workflow; ``await handle.signal(approved, True)`` wherever the run's id is known.
    What is sent before the run waits is kept for it; messages are consumed in the order in which they came, each once.

    Attributes:
        name: what it is called in the log.
    """

    @overload
    def wait(self, *, timeout: Duration | None = None) -> Coroutine[object, None, T]: ...
    @overload
    def wait(self, *, timeout: Duration, default: D) -> Coroutine[object, None, T | D]: ...
    def wait(self, *, timeout: Duration | None = None, default: Any = MISSING) -> Coroutine[object, None, Any]:
        """Wait for the next message, in an async workflow; nothing stays in memory meanwhile.

        Several waits go with ``asyncio.wait``, ``gather`` or tasks, like steps. A message that is there when the
        timeout would be recorded wins over it.

        Args:
            timeout: how long to wait at most; by default for ever.
            default: what to return then, instead of raising.

        Raises:
            SignalTimeout: no message came in time.
            ColourError: called in a sync workflow.
            NotInRun: called outside a workflow's code.
            DefinitionError: the timeout is no duration.
        """
        limit = None if timeout is None else seconds(timeout, what="timeout")
        run = run_for_coroutine(repr(self), f"perdure.sync.receive({self.name}, …)")
        if run is None:
            raise _outside(self)
        return run.wait_signal(self, limit, default)


def message(signal: Signal[Any] | str, value: object, idempotency_key: str | None) -> Message:
    """Make a message that names no run yet.

    Raises:
        NotSerializable: the value is not of the signal's type, or cannot be stored exactly.
        DefinitionError: the name, or the idempotency key, is wrong.
    """
    if isinstance(signal, Signal):
        name, codec = signal.name, signal.codec
    elif isinstance(signal, str):
        name, codec = check_explicit(signal, "a signal's name"), _ANY
    else:
        raise DefinitionError(f"{signal!r} is no signal and no name of one", advice="give Signal[…](name) or its name")
    dedup = None if idempotency_key is None else valid_run_id(idempotency_key, "idempotency key")
    kept, stored, artifact = payloads.pack(codec.encode(codec.admit(value, f"signal {name!r}"), f"signal {name!r}"))
    return Message(
        InboxKind.SIGNAL,
        name=name,
        codec=kept,
        payload=stored,
        dedup=dedup,
        artifacts=() if artifact is None else (artifact,),
    )


def cancellation(reason: str) -> Message:
    """Make a message that asks a run to end, and names none yet."""
    return Message(InboxKind.CANCEL, payload=payloads.note(reason=reason))


def receive(signal: Signal[T], timeout: float | None, default: Any) -> Any:
    """Wait for a signal in a sync workflow.

    Raises:
        SignalTimeout, ColourError, NotInRun: as for ``Signal.wait``.
    """
    fiber = fiber_for_blocking(repr(signal), f"await {signal.name}.wait(…)")
    if fiber is None:
        raise _outside(signal)
    return fiber.wait(lambda: fiber.run.wait_signal(signal, timeout, default))


def _outside(signal: Signal[Any]) -> NotInRun:
    where = "a step, and a step waits for nothing that comes to its run" if in_step() else "no workflow"
    return NotInRun(
        f"{signal!r} was waited for in {where}", advice="wait for it in a function decorated with @workflow"
    )


__all__ = ["Signal", "cancellation", "message", "receive"]
