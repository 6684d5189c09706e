"""Compensations: what a run has registered to be undone, and the unwinding when a saga is left by an exception.

A registration is memory only: every execution makes it anew, in the same order. Executing one is an ordinary call, so
what is recorded as done is not done again. No cancellation reaches an unwinding. A compensation that fails for good
stops the unwinding of its saga where it is; once nothing else of the run moves, that blocks the run.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NoReturn, cast

from perdure.errors import ContinueAsNew, RunBlocked, RunGone, WrongState
from perdure.model import payloads
from perdure.model.failures import encode_failure, failure_text
from perdure.model.keys import UNDO
from perdure.model.records import Kind
from perdure.runtime import drift
from perdure.runtime.calls import StepCall, users_frame
from perdure.runtime.children import ChildCall, call_child
from perdure.workflow import Workflow

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import CodeType, FrameType

    from perdure.model.arguments import Prepared
    from perdure.model.records import CommitItem
    from perdure.protocols import StepLike, WorkflowLike
    from perdure.runtime.ending import Ending
    from perdure.runtime.run import Run

SHOWN = 50
"""Keys of compensations that a run's row names."""

_NOT_FAILURES = (RunGone, GeneratorExit, KeyboardInterrupt)
"""What leaves a block although nothing has failed in it: the run leaves memory, and goes on later."""


class Compensation:
    """Something to be undone: a call that is made only if it comes to that.

    Attributes:
        key: the call's key, taken when it was registered.
        since: key of the first call that was made after it was registered.
    """

    __slots__ = ("_code", "_lasti", "_what", "_with", "key", "since")

    def __init__(self, key: str, what: StepLike | WorkflowLike, arguments: Prepared | bytes, frame: FrameType) -> None:
        self.key = key
        self.since: str | None = None
        self._what, self._with = what, arguments
        self._code: CodeType = frame.f_code
        self._lasti = frame.f_lasti

    def call(self, run: Run) -> StepCall | ChildCall:
        """Make the call.

        Raises:
            RunGone: the run leaves memory, or the call is recorded with other arguments.
        """
        if run.loop.gone or run.gone:
            raise RunGone
        call: StepCall | ChildCall
        if isinstance(self._what, Workflow):
            assert isinstance(self._with, bytes)
            call = call_child(run, self._what, self.key, self._with)
        else:
            assert not isinstance(self._with, bytes)
            step = cast("StepLike", self._what)
            event = run.replay.by_key.get(self.key)
            if event is not None:
                drift.check_arguments(run, step, self.key, event, self._with.data)
            call = StepCall(run, step, self.key, self._with)
        if run.loop.poison is not None:
            raise RunGone
        call.code, call.lasti = self._code, self._lasti
        return call


class Undoing:
    """All that is registered in one run, in its order, and what has become of it.

    Attributes:
        registered: the compensations that are to be executed if their sagas fail.
        failed: those that have failed for good, with what they failed with.
        aftermath: how the run is to end once everything is done that is left to do, if it has come to that.
    """

    __slots__ = ("_changed", "_fresh", "_kept", "_kept_at", "_run", "_told", "aftermath", "failed", "registered")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._changed = False
        self._fresh: list[Compensation] = []
        self._kept: list[Compensation] = []
        self._kept_at = 0
        self._told = run.row.undo or ""
        self.registered: dict[Compensation, None] = {}
        self.failed: dict[Compensation, BaseException] = {}
        self.aftermath: Ending | None = None

    def register(self, one: Compensation) -> None:
        """Add a compensation."""
        self.registered[one] = None
        self._fresh.append(one)
        self._changed = True

    def forget(self, one: Compensation) -> None:
        """It is done, or is not to be done any more."""
        self.registered.pop(one, None)
        self._changed = True

    def keep(self, stack: list[Compensation]) -> None:
        """A block has ended well: what was done in it is to stay."""
        if self._kept_at != self._run.activation:
            self._kept, self._kept_at = [], self._run.activation
        self._kept += stack
        for one in stack:
            self.forget(one)

    def keep_not(self) -> None:
        """A cancel came before the end of the code was on disk: what ended with it has not ended well."""
        if self._kept_at == self._run.activation:
            self.registered = dict.fromkeys([*self.registered, *self._kept])
            self._kept = []
            self._changed = True

    def called(self, key: str) -> None:
        """A call is made: those registered since the last one are for the sake of it, or of later ones."""
        for one in self._fresh:
            one.since = key
        self._fresh.clear()

    def ride(self, item: CommitItem) -> None:
        """Have what is registered written with other things, if it is not what was written last."""
        if not self._changed:
            return
        self._changed = False
        now = listed([one.key for one in self.registered])
        if now != self._told:
            item.undo = self._told = now

    def unwritten(self) -> None:
        """What was to ride along was not written."""
        self._changed, self._told = True, "?"

    def verdict(self) -> RunBlocked:
        """Why the run cannot go on: what has failed, and all that is not undone."""
        run_id = self._run.run_id
        why = "; ".join(f"{one.key} failed: {failure_text(self._failure(error))}" for one, error in self.failed.items())
        left = ", ".join(self.left)
        return RunBlocked(f"compensation {why}; not undone: {left}", run_id=run_id)

    @property
    def left(self) -> list[str]:
        """Keys of what is not undone, in the order in which it would be."""
        return [one.key for one in reversed(self.registered)]

    def note(self, reason: str) -> bytes:
        """Payload of ``run_blocked``."""
        failures = self._run.failures
        attempts = [failures[id(error)][2] if id(error) in failures else 1 for error in self.failed.values()]
        head = payloads.note(
            code="undo_failed",
            reason=reason,
            steps=[one.key for one in self.failed],
            attempts=attempts,
            not_undone=self.left,
        )
        return head[:-1] + b',"failure":' + self._failure(next(iter(self.failed.values()))) + b"}"

    def _failure(self, error: BaseException) -> bytes:
        return self._run.host.codecs.failure(encode_failure(error))

    async def unwind(self, stack: list[Compensation]) -> None:
        """Execute compensations, the last one first, whatever is cancelled meanwhile; returns when all are done.

        Raises:
            RunGone: the run leaves memory.
        """
        run = self._run
        if not stack:
            return
        key = run.loop.scope().key(UNDO)
        if key not in run.replay.undone:
            said = payloads.note(undo=[one.key for one in reversed(stack)], **{"from": stack[0].since})
            run.record(Kind.UNDO_BEGUN, key, payload=said)
        while stack:
            one = stack[-1]
            call = one.call(run)
            try:
                await shielded(call)
            except _NOT_FAILURES:
                raise
            except BaseException as error:  # noqa: BLE001 - a body may raise anything
                self.failed[one] = error
                run.calls[one.key] = call  # it stays open: the run waits for whoever mends it
                await _for_ever()
            stack.pop()
            self.forget(one)


class Saga:
    """What one ``saga()`` block has registered."""

    __slots__ = ("_ended", "_run", "_stack", "_undoing")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._undoing = undoing_of(run)
        self._stack: list[Compensation] = []
        self._ended = False

    def push(self, what: StepLike | WorkflowLike, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Register a call; takes its key and its arguments now.

        Raises:
            WrongState: the block has been left.
            NotSerializable: an argument cannot be stored exactly.
            DuplicateName: another step of this name, or the same explicit key, was used in this run.
        """
        if self._ended:
            raise WrongState(
                f"{what!r} was pushed to a saga that has ended",
                run_id=self._run.run_id,
                advice="push inside the block, before the step whose effect it undoes",
            )
        key, arguments = self._run.code.register(what, args, kwargs)
        one = Compensation(key, what, arguments, users_frame())
        self._stack.append(one)
        self._undoing.register(one)

    def pop(self) -> None:
        """Take back what was registered last.

        Raises:
            IndexError: nothing is registered.
        """
        self._undoing.forget(self._stack.pop())

    def clear(self) -> None:
        """Take everything back."""
        while self._stack:
            self.pop()

    async def leave(self, error: BaseException | None) -> None:
        """The block is left: undo everything if that is by a failure or a cancellation.

        Raises:
            WrongState: it is left for another run that knows nothing of what is registered.
        """
        self._ended = True
        run = self._run
        refused: WrongState | None = None
        if isinstance(error, ContinueAsNew):
            error = refused = self._refused() if self._stack else None
        if error is not None and (isinstance(error, _NOT_FAILURES) or run.gone or run.loop.gone):
            return
        if error is not None and run.loop.poison is not None:
            return  # nothing the code does counts any more; what is registered is undone when the run ends
        if error is None:
            self._undoing.keep(self._stack)
            return
        await self._undoing.unwind(self._stack)
        if refused is not None:
            raise refused

    def _refused(self) -> WrongState:
        return WrongState(
            f"run {self._run.run_id} called continue_as_new in a saga that has something to undo",
            run_id=self._run.run_id,
            advice="call it after the block, or undo.clear() first if what was done is to stay",
        )


def undoing_of(run: Run) -> Undoing:
    """Return what a run has registered, which most runs never have."""
    if run.undoing is None:
        run.undoing = Undoing(run)
    return run.undoing


def is_pending(run: Run) -> bool:
    """Whether something is registered, as far as is known here or was when the run was last written."""
    return bool(run.row.undo) or (run.undoing is not None and bool(run.undoing.registered))


def listed(keys: list[str]) -> str:
    """Return keys as a run's row has them; empty if there are none."""
    if not keys:
        return ""
    more = [f"… and {len(keys) - SHOWN} more"] if len(keys) > SHOWN else []
    return json.dumps([*keys[:SHOWN], *more])


async def shielded(call: Coroutine[object, None, Any]) -> Any:
    """Wait for a call to end, whatever is cancelled meanwhile; return or raise what it ended with."""
    loop = asyncio.get_running_loop()
    future = asyncio.ensure_future(call)
    while not future.done():
        waiter = loop.create_future()
        future.add_done_callback(lambda _, waiter=waiter: waiter.done() or waiter.set_result(None))  # type: ignore[misc]
        try:
            await waiter
        except asyncio.CancelledError:
            continue  # delivered where the cleaning up had begun: it ends as it would have
    return future.result()


async def _for_ever() -> NoReturn:
    while True:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            continue


__all__ = ["Compensation", "Saga", "Undoing", "is_pending", "listed", "shielded", "undoing_of"]
