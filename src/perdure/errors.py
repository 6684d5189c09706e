"""Every error Perdure raises: one base, a stable ``code``, typed fields, and a note that says what to do.

``PerdureError`` is the base of all of them. What must never be swallowed by ``except Exception`` in a
workflow derives from ``BaseException`` instead and is not an error: see ``RunGone``.
"""

from __future__ import annotations

from typing import ClassVar


class PerdureError(Exception):
    """Base of every Perdure error.

    Attributes:
        code: stable, machine-readable name of the kind of error; never changes between releases.
        message: what happened, one sentence.
        advice: what to do about it, also added as a note to the traceback; empty if there is nothing to add.
        fields: the values the message speaks of, by name (run_id, step, path, …).
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str = "", *, advice: str = "", **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.fields = fields
        if advice:
            self.add_note(advice)

    def __str__(self) -> str:
        return self.message

    @property
    def headline(self) -> str:
        """The first line of the message: what is logged. Where values are shown, they are in the lines below."""
        return self.message.partition("\n")[0]

    def __getattr__(self, name: str) -> object:
        # Fields read like attributes: error.run_id.
        fields = self.__dict__.get("fields")
        if fields is not None and name in fields:
            return fields[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.advice, self.fields))


def _rebuild(cls: type[PerdureError], message: str, advice: str, fields: dict[str, object]) -> PerdureError:
    return cls(message, advice=advice, **fields)


# -- definitions and calls ------------------------------------------------------------------------


class DefinitionError(PerdureError):
    """A workflow, step or option is wrong in itself; raised where it is written, before anything runs."""

    code = "definition"


class DuplicateName(DefinitionError):
    """Two different workflows (or two different steps of one run) carry the same name."""

    code = "duplicate_name"


class ColourError(PerdureError):
    """A sync spelling in an async workflow, or the reverse; the message names the right spelling."""

    code = "colour"


class NotInRun(PerdureError):
    """The call needs a run around it (or must not have one), and that is not so here."""

    code = "not_in_run"


class NotDurable(PerdureError):
    """A workflow body used something whose outcome cannot be recorded; it belongs in a step."""

    code = "not_durable"


class Deadlock(PerdureError):
    """Nothing is running, and nothing the workflow waits for can ever come."""

    code = "deadlock"


class NotAwaited(PerdureError):
    """A step, a child or a wait for a signal was called and never awaited; fields: step (its key), line."""

    code = "not_awaited"


class TooDeep(PerdureError):
    """A child that has too many runs above it, each started by the one before; fields: run_id, key."""

    code = "too_deep"


# -- data -----------------------------------------------------------------------------------------


class NotSerializable(PerdureError):
    """A value cannot be stored exactly; fields: path (of the offending value), type."""

    code = "not_serializable"


class InvalidValue(PerdureError):
    """An input or a message is not of the type that is annotated; fields: path, type."""

    code = "invalid_value"


class Undecodable(PerdureError):
    """Stored bytes do not decode under today's type; fields: type."""

    code = "undecodable"


class CodecMissing(Undecodable):
    """What is stored has gone through a codec that is not here, or whose key is not; fields: codec, seq."""

    code = "codec_missing"


class IntegrityError(PerdureError):
    """The stored log is not what was written: a byte changed, or a row is missing; fields: run_id, seq."""

    code = "integrity"


class DriftError(PerdureError):
    """The code does not match the log it replays; nothing was run. Fields: run_id, key, recorded, found."""

    code = "drift"


# -- runs -----------------------------------------------------------------------------------------


class RunConflict(PerdureError):
    """The run id is taken by another workflow or another input; fields: run_id, recorded, found."""

    code = "run_conflict"


class RunNotFound(PerdureError):
    """No run of this id in the store; fields: run_id."""

    code = "run_not_found"


class RunPurged(RunNotFound):
    """The run of this id has ended and was purged, and its id is not used again.

    Fields: run_id, status (how it had ended), ended_at, purged_at (aware datetimes).
    """

    code = "run_purged"


class ScheduleNotFound(PerdureError):
    """No schedule of this key in the store; fields: key."""

    code = "schedule_not_found"


class UnknownWorkflow(PerdureError):
    """No workflow of this name is registered here; fields: workflow."""

    code = "unknown_workflow"


class CodeNotFound(PerdureError):
    """The workflow's code cannot be found from what the run's log says; fields: run_id, module, qualname, file."""

    code = "code_not_found"


class RunFailed(PerdureError):
    """The run failed and its own exception cannot be rebuilt here; fields: run_id, type, text, traceback."""

    code = "run_failed"


class RunCancelled(PerdureError):
    """The run was cancelled; fields: run_id, reason."""

    code = "run_cancelled"


class RunBlocked(PerdureError):
    """The run cannot go on without a person; fields: run_id, reason."""

    code = "run_blocked"


class WrongState(PerdureError):
    """What was asked is not possible in the run's state; fields: run_id, status."""

    code = "wrong_state"


# -- steps ----------------------------------------------------------------------------------------


class StepNotFound(PerdureError):
    """The run has not come to a step of this key or name; fields: run_id, step, steps (keys of those it came to)."""

    code = "step_not_found"


class StepFailed(PerdureError):
    """A step failed with an exception that cannot be rebuilt; fields: type, text, traceback."""

    code = "step_failed"


class StepTimeout(PerdureError, TimeoutError):
    """An attempt took longer than the step's timeout; fields: step, timeout (seconds)."""

    code = "step_timeout"


class SignalTimeout(PerdureError, TimeoutError):
    """No signal came in the time that a workflow waits for it."""

    code = "signal_timeout"


class StepInterrupted(PerdureError):
    """An at-most-once step was running when its process died, so it is not run again; fields: step."""

    code = "step_interrupted"


class StepAborted(PerdureError):
    """Raised by ``ctx.raise_if_cancelled()`` in a sync step whose attempt was cancelled or timed out."""

    code = "step_aborted"


class NoTransaction(PerdureError):
    """A source's connection was asked for where no transaction of it is open, or one was begun where one is.

    Also where the connection that is given as ``within=`` commits each statement by itself.
    """

    code = "no_transaction"


class TransactionEnded(PerdureError):
    """A transactional step's body committed or rolled back the transaction that Perdure ends; fields: step."""

    code = "transaction_ended"


class OutcomeUnknown(PerdureError):
    """A transactional attempt failed, and its database does not say whether it was committed; fields: step.

    Its cause is what the attempt failed with. The next attempt, or a later resume, finds out and does what is right.
    """

    code = "outcome_unknown"


class StepsTable(PerdureError):
    """What transactional steps and outboxes need is not in the user's database, or is a newer Perdure's."""

    code = "steps_table"


class RetryAfter(PerdureError):
    """Raise in a step to ask for the next attempt after ``delay`` (seconds), within the step's attempts."""

    code = "retry_after"

    def __init__(self, delay: float, message: str = "", *, advice: str = "", **fields: object) -> None:
        super().__init__(message or f"retry after {delay} s", advice=advice, **fields)
        self.delay = delay

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.delay, self.message))


# -- engine and store -----------------------------------------------------------------------------


class EngineNotOpen(PerdureError):
    """The engine (or client) is not started, or was stopped."""

    code = "engine_not_open"


class StoreError(PerdureError):
    """The store cannot do what was asked; fields: store."""

    code = "store"


class StoreUnreachable(StoreError):
    """The database cannot be opened or reached."""

    code = "store_unreachable"


class StoreGone(StoreUnreachable):
    """The database file was removed or replaced while it was open."""

    code = "store_gone"


class StoreBusy(StoreError):
    """Another process holds the database's write lock for too long; trying again may help."""

    code = "store_busy"


class StoreReadOnly(StoreError):
    """The database, its file or its folder cannot be written."""

    code = "store_read_only"


class StoreFull(StoreError):
    """The disk (or quota) under the database is full; nothing was lost, free some space and go on."""

    code = "store_full"


class StoreCorrupt(StoreError):
    """The database file is damaged."""

    code = "store_corrupt"


class StoreTooNew(StoreError):
    """The database was written by a newer Perdure than this one."""

    code = "store_too_new"


class NotAStore(StoreError):
    """The file is not a Perdure store."""

    code = "not_a_store"


class StoreUnsafe(StoreError):
    """Using the store this way could corrupt it: a network file system, a second SQLite library, a forked process."""

    code = "store_unsafe"


class ContinueAsNew(BaseException):
    """Ends a workflow's function to go on as a new run. Not an ``Exception``: nobody means to handle it."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


class RunGone(BaseException):
    """Raised by Perdure calls in a workflow whose execution ended in memory (evicted, fenced, stopped).

    The run itself goes on elsewhere or later. It is no ``Exception``, so that a workflow's own handlers do
    not mistake it for a failure: whatever they would do could not be recorded.
    """
