"""Attempts at transactional steps: a body in a transaction of the user's database, and its outcome in the same.

    claim      begin, take the step's row with the run's epoch: waits while an older holder's transaction is under way
    body       the user's statements
    keep       the outcome goes into the row
    commit     effects and outcome stand, or neither
    settle     after a failure, in a transaction of its own: is it committed all the same (then it is no failure), or
               may nobody of an older epoch commit it any more?

Only then does the log hear of it. Where the process dies before that, the next attempt finds the row. The same code
serves threads: no coroutine of a sync source ever suspends, so it is driven to its end at once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from perdure.context import enter_step
from perdure.errors import (
    CodecMissing,
    DefinitionError,
    DriftError,
    IntegrityError,
    OutcomeUnknown,
    StepAborted,
    StepsTable,
    StoreUnsafe,
    TransactionEnded,
    Undecodable,
)
from perdure.model import payloads
from perdure.model.transactions import Mark, Meaning, Row, is_whole, judge, row_id, seal
from perdure.runtime import drift, points
from perdure.runtime.bodies import _EAGER, _OVER, _RUNNING, _WAITING, Abort, Body
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from perdure.protocols import SourceLike, TransactionLike
    from perdure.runtime.calls import StepCall
    from perdure.runtime.run import Run

AGAIN = 0.05
"""Seconds after which what may pass is tried again."""


class _NotNow(BaseException):
    """The attempt is given up without an outcome: it is made again, here or elsewhere."""


class TransactionalBody(Body):
    """A body whose effects and outcome are committed together, in the user's database."""

    __slots__ = (
        "_claimed",
        "_closing",
        "_found",
        "_refused",
        "_settling",
        "_transaction",
        "patience",
        "sealed",
        "unsettled",
    )

    def __init__(self, run: Run, call: StepCall) -> None:
        super().__init__(run, call)
        self.sealed = None
        self.unsettled = False
        self._closing = False
        """Whether the body has returned: what has begun to be committed or settled is not to be interrupted."""
        self._claimed = False
        self._settling = False
        self._found: Row | None = None
        """The committed row that was there."""
        self._refused: BaseException | None = None
        """Why nothing of this run may go on here."""
        self._transaction: TransactionLike | None = None
        self.patience: Callable[[], Coroutine[Any, Any, None]] | None = None
        """What keeps it from ending once its transaction has ended; for the test kit."""

    def start(self) -> None:
        """Begin; a call that was cancelled before it had begun is only settled."""
        if not self.call.cancelled:
            super().start()
            return
        self.abort = Abort.CANCEL
        self.context.run(enter_step, self)
        host = self.run.host
        if self.call.step.is_async:
            self.task = asyncio.Task(self._contain(), loop=host.loop, context=self.context)
        else:
            self.stage = _RUNNING
            host.threads.submit(self, self.context, None)

    def request_abort(self, why: Abort) -> None:
        """Ask the body to stop; once it has returned, nothing is interrupted that can be expected to end."""
        ends_all = why is Abort.STOP or why is Abort.LOST
        if self.stage is _WAITING and not ends_all and self.call.step.transactional is not None:
            self.abort = self.abort or why  # its task finds that, and only settles
        elif not self._closing:
            super().request_abort(why)
        elif why is Abort.LOST or (why is Abort.STOP and self._settling):
            self.abort = why
        elif why is Abort.TIMEOUT and self.task is not None and not self._settling:
            source = self.call.step.transactional
            assert source is not None
            self.timer = self.run.host.call_later(source.settle, self._give_up)

    def _give_up(self) -> None:
        if self.stage is _RUNNING and self.task is not None and not self._settling:
            self.abort = Abort.TIMEOUT
            self.task.cancel()

    def run_here(self, argument: object) -> None:
        """Execute a sync body, and what is about it, on the calling thread."""
        if self.call.step.transactional is None:  # something else stands in for its body
            super().run_here(argument)
            return
        try:
            _drive(self._transact())
        except BaseException as error:  # noqa: BLE001 - whatever a body raises is its outcome
            self.error = error
        self.stage = _OVER

    async def _contain(self) -> None:
        if self.call.step.transactional is None:
            await super()._contain()
            return
        if not _EAGER or self.call.cancelled:
            self.stage = _RUNNING
        try:
            await self._transact()
        except BaseException as error:
            if self.run.host.loop.is_closed() or isinstance(error, GeneratorExit):
                raise
            self.error = error
            if isinstance(error, KeyboardInterrupt) and self.run.stopping:
                self.abort = Abort.STOP
                self._over()
                raise
        self._over()

    def finished(self) -> None:
        """Settle: what is committed stands, whatever was asked meanwhile."""
        if self.settled:
            return
        if self._found is not None and self.error is None:
            self._read(self._found)
        if self.sealed is not None and self.abort is not Abort.LOST:
            self.abort = None
        self.unsettled = not self._settling and self.call.step.transactional is not None
        if isinstance(self.error, _NotNow) or self._refused is not None:
            self.value, self.error, self.sealed = None, asyncio.CancelledError(), None
            self.abort = Abort.STOP
            self.run.host.held_back = True
            if self.run.verdict is None:
                self.run.verdict = self._refused
        super().finished()

    def perish(self) -> None:
        """Leave nothing open: the process dies. A thread cannot be stopped, and ends its transaction itself."""
        if self._transaction is not None and self.task is not None:
            self._transaction.abandon()
            self._transaction = None

    def artifact(self, name: str, data: bytes) -> None:
        """Refuse: what is kept beside the log is not in the user's transaction.

        Raises:
            DefinitionError: always, unless something else stands in for the body.
        """
        if self.call.step.transactional is None:
            super().artifact(name, data)
            return
        raise DefinitionError(
            f"step {self.call.key} is transactional and keeps no artifacts: they would not be in its transaction",
            advice="write the bytes into a table of yours, or have a step that is not transactional keep them",
        )

    # -- what is about the body; on a thread, for a sync one

    async def _transact(self) -> None:
        try:
            await self._work()
        except GeneratorExit:
            raise
        except BaseException:
            if self.patience is not None:
                await self.patience()
            raise
        if self.patience is not None:
            await self.patience()

    async def _work(self) -> None:
        source = self.call.step.transactional
        assert source is not None
        failed: BaseException = asyncio.CancelledError()
        if self.abort is None:
            try:
                await self._attempt(source)
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - whatever a body raises is its outcome
                failed = error
            else:
                return
        self._closing = True
        interrupted = isinstance(failed, (asyncio.CancelledError, StepAborted, KeyboardInterrupt))
        if isinstance(failed, _NotNow) or (interrupted and self.abort in {Abort.STOP, Abort.LOST}):
            raise failed  # nothing is recorded: the attempt is made again
        if not self._claimed and isinstance(failed, (DefinitionError, StepsTable, StoreUnsafe)):
            raise failed  # where no row can be, no other holder can commit either
        self._settling = True
        await self._settle(source, failed)

    async def _attempt(self, source: SourceLike) -> None:
        call, host = self.call, self.run.host
        step = call.step
        marks = self._marks()
        try:
            transaction = await self._claim(source, marks, step.timeout)
            if transaction is None:
                return
            token = source.enter(transaction)
            try:
                context = None if step.takes_ctx is None else self.step_context()
                value = step.invoke(call.prepared.args, call.prepared.kwargs, context)
                if step.is_async:
                    value = await value
            except Exception as error:
                if transaction.meddled:
                    raise _ended(call) from error
                raise
            finally:
                source.leave(token)
            self._closing = True
            if self.abort in {Abort.TIMEOUT, Abort.LOST}:
                raise StepAborted(f"step {call.key} was asked to stop", step=step.name, run_id=self.run.run_id)
            payload, value = step.result.roundtrip(value)
            codec, stored, _ = host.codecs.value(payloads.PLAIN, payload, None, inline=True)
            args = host.codecs.encode(step.arguments.condense(call.prepared.data))
            for mark in marks:
                if not await transaction.keep(mark, stored, args, codec, seal(mark.id, stored, args, codec)):
                    raise _ended(call)
            if not host.lease_ok():
                raise _NotNow
            host.reach(points.TRANSACT)
            await transaction.commit()
            host.reach(points.TRANSACTED)
            self.sealed = payload, value
            await source.tidy(host.clock.now())
        except GeneratorExit:
            self.perish()
            raise
        finally:
            await self._roll_back()

    async def _claim(self, source: SourceLike, marks: list[Mark], idle: float | None) -> TransactionLike | None:
        """Begin, and take the step's row; None if the body is not to be begun."""
        while True:
            transaction = self._transaction = source.transaction()
            try:
                rows = await transaction.claim(marks, idle=idle)
            except Exception as error:
                if not source.may_pass(error):
                    raise
            else:
                self._claimed = True
                return transaction if self._judge(marks, rows) else None
            await self._roll_back()
            if self.abort is not None:
                raise StepAborted(f"step {self.call.key} was asked to stop", step=self.call.step.name)
            await source.pause(AGAIN)

    async def _settle(self, source: SourceLike, failed: BaseException) -> None:
        """After a failure: find what is committed, or see to it that nobody of an older epoch commits it later."""
        clock = self.run.host.clock
        until = clock.monotonic() + source.settle
        mark = self._marks()[:1]
        while True:
            left = max(until - clock.monotonic(), AGAIN)
            transaction = self._transaction = source.transaction()
            try:
                async with source.within(left):
                    rows = await transaction.claim(mark, wait=left)
                    if not self._judge(mark, rows):
                        return
                    await transaction.commit()
            except GeneratorExit:
                self.perish()
                raise
            except Exception as error:  # noqa: BLE001 - it is tried again
                reason: BaseException = error
            else:
                raise failed
            finally:
                await self._roll_back()
            if self.abort in {Abort.STOP, Abort.LOST}:
                raise _NotNow
            if clock.monotonic() >= until:
                break
            await source.pause(AGAIN)
        say(lines.STEP_OUTCOME_UNKNOWN, key=self.call.key, reason=type(reason).__name__, **self.about())
        raise OutcomeUnknown(
            f"step {self.call.key} of run {self.run.run_id} failed ({type(failed).__name__}), and its database does "
            f"not say within {source.settle:g} s whether it is committed",
            step=self.call.step.name,
            advice="give the step retry=, or resume the run when the database is back: the next attempt finds out",
        ) from failed

    def _marks(self) -> list[Mark]:
        """What is claimed: the step's own row; of a fork that keeps its origin's keys, also the origin's."""
        run, call = self.run, self.call
        namespace = run.row.namespace
        own = Mark(
            row_id(namespace, run.uid, call.key), run.run_id, call.key, run.epoch, self.attempt, run.host.clock.now()
        )
        if run.key_uid == run.uid:
            return [own]
        return [own, own._replace(id=row_id(namespace, run.key_uid, call.key), epoch=0)]

    def _judge(self, marks: list[Mark], rows: list[Row]) -> bool:
        """Whether nothing is committed and the run is still ours."""
        for mark, row in zip(marks, rows, strict=True):
            # Another run's epochs say nothing of this one's.
            meaning = judge(row, mark.epoch or row.epoch)
            if meaning is Meaning.DONE:
                self._found = row
                if not is_whole(row, mark.id):
                    self._refused = IntegrityError(
                        f"run {self.run.run_id}: the row of {mark.key} in perdure_steps is not what was written",
                        run_id=self.run.run_id,
                        advice="the user's database was changed or damaged outside Perdure; restore it from a backup",
                    )
                return False
            if meaning is Meaning.FENCED:
                # If the run has another holder, the store refuses what is written on this. If not, a person must look.
                self._refused = IntegrityError(
                    f"run {self.run.run_id}: a later holder (epoch {row.epoch}, this is {mark.epoch}) has begun "
                    f"{mark.key}",
                    run_id=self.run.run_id,
                    advice="is the store an older backup than the database of the step? Then resume the run, as often "
                    "as it takes to get beyond that epoch, or delete the row of perdure_steps",
                )
                return False
        return True

    def _read(self, row: Row) -> None:
        """Take an outcome that was found for the body's, if it is this call's."""
        run, call = self.run, self.call
        if self._refused is not None:
            return
        try:
            recorded, payload = (run.host.codecs.decode(data or b"") for data in (row.args, row.outcome))
        except CodecMissing as misfit:
            self._refused = misfit
            return
        found = call.prepared.data
        if recorded != found and not run.accept_drift and not call.step.arguments.same(recorded, found):
            error = DriftError(
                f"run {run.run_id}: {call.key} is committed in the step's database with other arguments\n"
                f"  recorded: {drift.shown(recorded)}\n  found:    {drift.shown(found)}",
                run_id=run.run_id,
                key=call.key,
                recorded=drift.shown(recorded),
                found=drift.shown(found),
                advice="nothing was run. Undo the change, or resume with accept_drift",
            )
            if not drift.depart(run, error):
                self._refused = error
                return
        try:
            self.sealed = payload, call.step.result.decode(payload)
        except Undecodable as error:
            self._refused = DriftError(
                f"run {run.run_id}: the committed result of {call.key} does not decode as the step's type today: "
                f"{error}",
                run_id=run.run_id,
                key=call.key,
                advice="nothing was run; give the new field a default, or have upcast= take the old form",
            )

    async def _roll_back(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            with suppress(asyncio.CancelledError):
                await transaction.rollback()


def _ended(call: StepCall) -> TransactionEnded:
    return TransactionEnded(
        f"the body of {call.key} has ended the transaction that Perdure began for it",
        step=call.step.name,
        advice="leave COMMIT and ROLLBACK to Perdure: return to commit, raise to roll back; what is to be undone in "
        "part goes into a savepoint",
    )


def _drive(coroutine: Coroutine[Any, Any, None]) -> None:
    """Execute a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("a sync source has suspended")


__all__ = ["TransactionalBody"]
