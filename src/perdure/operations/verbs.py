"""The verbs that handles, engine and tools share: each reads what is true, and changes it in one transition."""

from __future__ import annotations

import os
from contextlib import nullcontext, suppress
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from perdure.errors import (
    DefinitionError,
    DriftError,
    IntegrityError,
    PerdureError,
    RunBlocked,
    RunCancelled,
    RunConflict,
    StepFailed,
    Undecodable,
    WrongState,
)
from perdure.model import chain, ids, payloads
from perdure.model.codec import ValueCodec
from perdure.model.durations import FOREVER, micros
from perdure.model.failures import as_run_failed, decode_failure, place_of
from perdure.model.history import RunView, fold
from perdure.model.purging import refused
from perdure.model.records import Event, Kind, NewRun, RunRow, Status
from perdure.model.secrecy import concealed
from perdure.model.starting import deadline_at, valid_priority, valid_tags
from perdure.operations.coding import codeless
from perdure.operations.missing import missing
from perdure.operations.starting import reuse_of
from perdure.queues import queue_name
from perdure.runtime import points
from perdure.store.coded import codecs_of
from perdure.store.controlling import RESUMABLE
from perdure.store.protocol import PAGE
from perdure.workflow import Workflow

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Protocol, TypeVar

    from perdure.model.clock import Clock
    from perdure.model.deeds import Author
    from perdure.model.records import Claim, Created
    from perdure.operations.starting import Start
    from perdure.store.protocol import Store
    from perdure.store.talk import Talk
    from perdure.telemetry.otel import Tracing
    from perdure.transactional.source import Source

    T = TypeVar("T")

    class Calls(Protocol):
        """How a verb of the store is executed: beside what runs write, where the store can do both at a time."""

        def __call__(
            self,
            verb: Callable[[], T],
            /,
            *,
            start: Callable[[], Talk[T] | None] | None = None,
            then: Callable[[T], object] | None = None,
        ) -> asyncio.Future[T]:
            """Execute it in its turn; ``then`` gets what it gives, whoever waits for that.

            ``start`` begins what the verb does without a thread that waits, for who can do without.
            """
            ...


_ANY = ValueCodec(Any)
SHOWN = 300
_NAMED = 5
"""Compensations named in an error."""
FOLLOWED = 256
"""Events that who follows a log reads at a time."""
_NO_CAP = 1 << 30


class WentOn(Exception):
    """A run that had ended has been resumed since: its end is not to be had yet."""


class Continued(WentOn):
    """A run has ended, and another goes on under its id."""


class Operations:
    """See the module's text. Every method may raise ``StoreError``."""

    def __init__(
        self,
        store: Store,
        call: Calls,
        clock: Clock,
        namespace: str = "",
        definitions: Mapping[tuple[str, str], Workflow[Any, Any]] | None = None,
        *,
        reached: Callable[[str], None] | None = None,
    ) -> None:
        self.store = store
        self.codecs = codecs_of(store)
        self.call = call
        self.clock = clock
        self.namespace = namespace
        self.definitions = definitions or {}
        self.reached = reached
        self.written: Callable[[], object] = lambda: None
        """Told when something was written into one of them; its transaction has yet to commit."""
        self.author: Author | None = None
        """Who does by hand what is done here; None: a program."""
        self.tracing: Tracing | None = None
        """What makes spans, if anything does."""
        self.outboxes: tuple[Source[Any], ...] = ()
        """Where is written what is started and sent in transactions of the caller's."""

    @property
    def by(self) -> str | None:
        """Who does by hand what is done here, as it is stored."""
        return None if self.author is None else self.author.text

    def _reason(self, done: str, said: str) -> str:
        return said if self.author is None else self.author.reason(done, said)

    # -- creating

    def enqueuing(
        self, workflow: Workflow[Any, Any], runs: int, run_id: str | None = None
    ) -> AbstractContextManager[None]:
        """Return what makes a span of creating runs, whose context they keep."""
        if self.tracing is None:
            return nullcontext()
        name = str(getattr(workflow, "name", ""))  # whether it is one is looked at within
        attributes: dict[str, Any] = {
            "perdure.workflow": name,
            "perdure.namespace": self.namespace,
            "perdure.runs": runs,
        }
        if run_id is not None:
            attributes["perdure.run_id"] = run_id
        return self.tracing.around(f"enqueue {name}", attributes)

    def carrier(self) -> dict[str, str] | None:
        """Return the trace that a run that is created now goes on in."""
        return None if self.tracing is None else self.tracing.carrier()

    def new_run(self, workflow: Workflow[Any, Any], value: Any, start: Start) -> NewRun:
        """Make the record of a run to create.

        Raises:
            NotSerializable: the input cannot be stored exactly.
            DefinitionError: an option is wrong.
        """
        if not isinstance(workflow, Workflow):
            raise DefinitionError(
                f"{workflow!r} is not a workflow", advice="give the function that is decorated with @workflow"
            )
        now = self.clock.now()
        run_id = ids.run_id(now, os.urandom) if start.run_id is None else ids.valid_run_id(start.run_id)
        if not workflow.takes_input and value is not None:
            raise DefinitionError(f"{workflow.name} takes no input", advice=f"start it without one, not with {value!r}")
        data = workflow.encode_input(value)
        codec, stored, artifact = payloads.pack(data)
        partition = None if start.partition is None else ids.valid_run_id(start.partition, "partition")
        key = start.idempotency_key
        if key is not None:
            key = ids.valid_run_id(key, "idempotency key")
        reuse = reuse_of(start)
        delay = start.delay if start.debounce is None else start.debounce
        delay_until = None if delay is None else min(now + micros(delay, what="delay"), FOREVER)
        origin = payloads.origin(run_id, workflow.origin, delay_until, by=self.by)
        return NewRun(
            run_id=run_id,
            uid=ids.new_uid(os.urandom),
            workflow=workflow.name,
            version=workflow.version,
            queue=workflow.queue if start.queue is None else queue_name(start.queue),
            namespace=self.namespace,
            created_at=now,
            codec=codec,
            payload=stored,
            origin=origin,
            delay_until=delay_until,
            deadline_at=deadline_at(start.deadline, workflow.deadline, delay_until or now),
            priority=valid_priority(start.priority),
            partition=partition,
            reuse=reuse,
            idempotency_key=key,
            meta=payloads.meta(None if start.tags is None else valid_tags(start.tags), self.carrier()),
            artifacts=() if artifact is None else (artifact,),
        )

    async def create(
        self,
        runs: Sequence[NewRun],
        workflow: Workflow[Any, Any],
        *,
        claim_for: int | None = None,
        facts: bytes = b"",
        claimed: Callable[[Claim], object] | None = None,
    ) -> list[Created]:
        """Create runs, or find those that are there.

        With ``claim_for`` (a worker's key) new runs are claimed at once, and ``claimed`` is told of each, also if the
        caller is cancelled meanwhile.

        Raises:
            RunConflict: an id (or idempotency key) is taken by another workflow or another input.
            RunPurged: it was that of a run which has been purged.
        """
        if self.reached is not None:
            self.reached(points.CREATE)

        def then(created: list[Created]) -> None:
            if self.reached is not None:
                self.reached(points.CREATED)
            for one in created:
                if one.claim is not None and claimed is not None:
                    claimed(one.claim)

        created = await self.call(
            lambda: self.store.create_runs(runs, claim_for=claim_for, facts=facts),
            start=lambda: self.store.start_create(runs, claim_for=claim_for, facts=facts),
            then=then,
        )
        for run, found in zip(runs, created, strict=True):
            if found.purged is not None:
                raise refused(found.purged, run.run_id)
            if not found.is_new:
                await self.check_same(found.row, workflow, run)
        return created

    async def check_same(self, row: RunRow, workflow: Workflow[Any, Any] | None, new: NewRun) -> None:
        """Compare a run that is there with the one that was to be created; without its code, as it is written.

        Raises:
            RunConflict: they differ.
        """
        run_id = row.run_id
        if row.workflow != new.workflow:
            raise RunConflict(
                f"run {run_id!r} belongs to workflow {row.workflow!r}, not {new.workflow!r}",
                run_id=run_id,
                recorded=row.workflow,
                found=new.workflow,
                advice="choose another run id",
            )
        first = (await self.call(lambda: self.store.read_events(row.run_key, 0, 1)))[0]
        recorded = self.unpack(first)
        found = new.artifacts[0].data if new.artifacts else new.payload
        if not _same_input(recorded, found, workflow):
            if payloads.generation(first) > 1 and await self._began_with(row, found, workflow):
                return
            raise RunConflict(
                f"run {run_id!r} was created with another input\n"
                f"  recorded: {_shown(recorded)}\n  found:    {_shown(found)}",
                run_id=run_id,
                recorded=_shown(recorded),
                found=_shown(found),
                advice="use another run id for another input; the recorded run goes on unchanged",
            )

    async def _began_with(self, row: RunRow, found: bytes, workflow: Workflow[Any, Any] | None) -> bool:
        """Whether a run that goes on as a new one had this input at first, or nobody knows any more which it had."""
        oldest = await self.call(lambda: self.store.get_run(f"{row.run_id}~1", row.namespace))
        if oldest is None:
            return True
        first = (await self.call(lambda: self.store.read_events(oldest.run_key, 0, 1)))[0]
        return _same_input(self.unpack(first), found, workflow)

    # -- reading

    async def row(self, run_id: str) -> RunRow:
        """Read a run's row.

        Raises:
            RunNotFound: no such run.
        """
        row = await self.call(lambda: self.store.get_run(run_id, self.namespace))
        return await self._missing(run_id) if row is None else row

    async def _missing(self, run_id: str) -> RunRow:
        raise await self.call(lambda: missing(self.store, run_id, self.namespace))

    async def events(self, row: RunRow, after: int = 0) -> list[Event]:
        """Read a run's log after a seq.

        Raises:
            RunPurged: it was purged while it was read.
        """

        def read() -> list[Event]:
            events: list[Event] = []
            last = after
            while page := self.store.read_events(row.run_key, last, PAGE):
                events += page
                last = page[-1].seq
            return events

        found = await self.call(read)
        if (found[-1].seq if found else after) < row.seq:  # it ends too soon
            await self.row_of(row.run_key, row.run_id)
        return found

    async def page(self, run_key: int, after: int) -> list[Event]:
        """Read the next few events of a run's log after a seq; none if it ends there."""
        return await self.call(lambda: self.store.read_events(run_key, after, FOLLOWED))

    async def payload(self, event: Event) -> bytes:
        """Return an event's payload, wherever it is kept.

        Raises:
            IntegrityError: the artifact is gone or not what was written.
            CodecMissing: it has gone through a codec that is not here, or whose key is not.
        """
        if event.codec == payloads.PLAIN:
            return event.payload or b""
        return await self.call(lambda: self.unpack(event))

    def unpack(self, event: Event) -> bytes:
        """As ``payload``, by whoever may wait for the store."""
        return self.codecs.unpack(event, self.store.get_artifact)

    async def row_of(self, run_key: int, run_id: str) -> RunRow:
        """Read the row of a run that was there before.

        Raises:
            RunPurged: it is gone.
        """
        rows = await self.call(lambda: self.store.get_runs([run_key]))
        return rows[0] if rows else await self._missing(run_id)

    async def view(self, run_id: str) -> tuple[RunRow, RunView]:
        """Read a run and what its log says."""
        row = await self.row(run_id)
        return row, fold(await self.events(row))

    # -- changing

    async def cancel(self, run_id: str, reason: str = "", *, force: bool = False) -> Status:
        """Cancel a run; the status found or made.

        Args:
            run_id: the run.
            reason: kept with it.
            force: end it at once unless somebody executes it, and leave undone what was to be undone.

        Raises:
            RunNotFound: no such run.
            WrongState: it has ended already otherwise than cancelled.
        """
        row = await self.row(run_id)
        reason = self._reason("cancelled", reason)

        def cancel() -> Status:
            if row.worker_key is not None and row.run_key in codeless(self.store, [row]):
                # Whoever held it is dead, and nobody who has the code is there to take it over and hear the cancel.
                self.store.reclaim(0, [row.worker_key], cap=_NO_CAP)
            return self.store.request_cancel(row.run_key, reason, force=force)

        status = await self.call(cancel)
        if status in {Status.COMPLETED, Status.FAILED}:
            raise WrongState(f"run {run_id!r} is already {status.word}", run_id=run_id, status=status.word)
        return status

    async def pause(self, run_id: str, reason: str = "") -> Status:
        """Pause a run.

        Raises:
            RunNotFound: no such run.
            WrongState: it has ended, or is blocked.
        """
        row = await self.row(run_id)
        reason = self._reason("paused", reason)
        status = await self.call(lambda: self.store.pause_run(row.run_key, reason))
        if status.terminal or status is Status.BLOCKED:
            raise WrongState(f"run {run_id!r} is {status.word}", run_id=run_id, status=status.word)
        return status

    async def resume_failed(self, row: RunRow) -> None:
        """Resume a run that was seen to have failed; if it is in another state by now, leave it at that."""
        with suppress(WrongState):
            await self.resume(row.run_id, states=frozenset({Status.FAILED}))

    async def resume(
        self, run_id: str, *, accept_drift: bool = False, states: frozenset[Status] = RESUMABLE, reason: str = ""
    ) -> RunRow:
        """Make a failed, cancelled or blocked run go on: what failed is tried anew, what is recorded stays.

        Args:
            run_id: the run.
            accept_drift: go on although the code calls steps with other arguments than those recorded.
            states: only from one of these.
            reason: kept in its log.

        Raises:
            RunNotFound: no such run.
            WrongState: the run is not in such a state, or has ended after it had begun to undo what it had done.
        """
        reason = self._reason("resumed", reason)
        while True:
            row = await self.row(run_id)
            if row.status not in states:
                raise WrongState(
                    f"run {run_id!r} is {row.status.word}: only failed, cancelled, blocked and paused runs are resumed",
                    run_id=run_id,
                    status=row.status.word,
                )
            view = fold(await self.events(row))
            if row.status.terminal and view.undone:
                raise _undone(run_id, row.status, view)
            # What had not ended goes on with what it was at, be that its cancellation.
            kept: dict[str, object] = {} if row.status.terminal else {"keep": True}
            if reason:
                kept["reason"] = reason
            payload = payloads.note(supersede=view.failed_steps, accept_drift=accept_drift, **kept)
            resumed = await self.call(partial(self.store.resume_run, row.run_key, row.epoch, payload))
            if resumed is not None:  # else somebody has resumed it since, and other steps may have failed
                return resumed

    # -- results

    async def last_event(self, row: RunRow) -> Event:
        """Return the event with which a run has ended, after checking its whole log.

        Raises:
            WentOn: it has been resumed since.
            RunNotFound: it was purged since.
            IntegrityError: its log is damaged.
        """
        events = await self.events(row)
        if not _ends_as(row, events):
            # It went on since, or the log was read from a server that had been demoted, and the row was not.
            if await self.row_of(row.run_key, row.run_id) != row:
                raise WentOn
            events = await self.events(row)
        chain.check(row.uid, events, run_id=row.run_id)
        if not _ends_as(row, events):
            blocked = row.status is Status.BLOCKED
            raise IntegrityError(
                f"run {row.run_id!r} is blocked: {row.reason}"
                if blocked
                else f"run {row.run_id!r}: its log does not end as its row says",
                run_id=row.run_id,
                reason=row.reason,
                advice="restore the database from a backup" + (", or cancel the run" if blocked else ""),
            )
        return events[-1]

    async def result(self, row: RunRow, last: Event, workflow: Workflow[Any, Any] | None) -> Any:
        """Return or raise what a run's last event says, as ``outcome`` does, and look why if it cannot be read."""
        try:
            return self.outcome(row, last, workflow)
        except IntegrityError:
            await self.row_of(row.run_key, row.run_id)  # an artifact may be gone because the run is
            raise

    def outcome(self, row: RunRow, last: Event, workflow: Workflow[Any, Any] | None) -> Any:
        """Return or raise what a run's last event says.

        Raises:
            Exception: the workflow's own, where it can be rebuilt.
            RunFailed, RunCancelled, RunBlocked, DriftError, IntegrityError: see there.
        """
        run_id, last = row.run_id, self.codecs.open(last)
        if workflow is None:
            workflow = self.definitions.get((row.workflow, row.version))
        if last.kind == Kind.RUN_COMPLETED:
            data = self.unpack(last)
            try:
                return (_ANY if workflow is None else workflow.output).decode(data)
            except Undecodable as misfit:
                raise DriftError(
                    f"run {run_id!r}: its recorded result does not decode as the workflow's type today: {misfit}",
                    run_id=run_id,
                    recorded=_shown(data),
                    advice="the result is kept as it is; make the type accept it",
                ) from misfit
        if last.kind == Kind.RUN_CONTINUED:
            raise Continued
        said = payloads.fields(last.payload)
        reason = said.get("reason") or "no reason given"
        if last.kind == Kind.RUN_CANCELLED:
            raise RunCancelled(
                f"run {run_id!r} was cancelled: {reason}", run_id=run_id, reason=reason, advice="`resume` lets it go on"
            )
        if last.kind == Kind.DRIFT_FOUND:
            raise (Undecodable if said.get("code") == Undecodable.code else DriftError)(
                f"run {run_id!r} does not fit this code: {reason}",
                run_id=run_id,
                reason=reason,
                advice="nothing was run or overwritten; it is left to workers of another build, which are running",
            )
        if last.kind == Kind.RUN_BLOCKED:
            kinds: dict[str, type[PerdureError]] = {"drift": DriftError, "integrity": IntegrityError}
            cls = kinds.get(said.get("code", ""), RunBlocked)
            raise cls(
                f"run {run_id!r} is blocked: {reason}",
                run_id=run_id,
                reason=reason,
                advice="nothing was run or overwritten; mend the cause, then `resume` it"
                if "not_undone" not in said
                else "mend the cause, then `resume` it: that compensation is tried again, then the rest",
            )
        failure = payloads.failure_of(last.payload)
        data = self.codecs.open_failure(failure or b"{}")
        error, place = decode_failure(data), place_of(data)
        if isinstance(error, StepFailed):
            error = as_run_failed(error, run_id)
        steps = ", ".join(
            f"{key} (attempt {attempt})" if attempt else key
            for key, attempt in zip_longest(said.get("steps", ()), said.get("attempts", ()))
        )
        in_steps = f" in {steps}" if steps else ""
        error.add_note(f"run {run_id!r} of {row.workflow} failed{in_steps}" + (f", at {place}" if place else ""))
        raise error


def _undone(run_id: str, status: Status, view: RunView) -> WrongState:
    """Why a run that has undone something cannot go on: what it would take for done no longer is."""
    since = view.undone_from
    there = since is not None and (since in view.steps or since in view.children)
    return WrongState(
        f"run {run_id!r} is {status.word} and has undone what it had done ({', '.join(view.undone[:_NAMED])}"
        f"{', …' if len(view.undone) > _NAMED else ''}), so it cannot go on from there",
        run_id=run_id,
        status=status.word,
        step=since,
        advice=f"fork it from before that: fork({since!r})" if there else "fork it from a step before, or run it anew",
    )


def _ends_as(row: RunRow, events: Sequence[Event]) -> bool:
    """Whether the last event is the one that a run's row names."""
    return bool(events) and events[-1].hash == row.hash


def _same_input(recorded: bytes, found: bytes, workflow: Workflow[Any, Any] | None) -> bool:
    """Whether two stored inputs are the same, if need be once the recorded one is written as it is written today."""
    if recorded == found:
        return True
    if workflow is None:
        return False
    try:
        return workflow.input.encode(workflow.input.decode(recorded)) == found
    except PerdureError:
        return False


def _shown(data: bytes) -> str:
    text = concealed(data).decode("utf-8", "backslashreplace")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
