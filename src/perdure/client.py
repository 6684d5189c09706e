"""What an open store answers to: start runs, wait for them, find them. An engine is a client that also executes."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from perdure.context import check_outside, current_run, in_step, now, step_context
from perdure.errors import DefinitionError, RunConflict, RunPurged, UnknownWorkflow
from perdure.filtering import filter_of, traffic, workflow_name
from perdure.handle import Handle
from perdure.model.records import Status
from perdure.operations import Operations, Pruned, Runs, Start, check_distinct, chosen, joining, prune
from perdure.options import statuses
from perdure.queueing import QueueClient
from perdure.schedules import ScheduleClient

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Unpack

    from perdure.diagnosis import Explanation
    from perdure.model.counting import Counts, Traffic
    from perdure.model.durations import Duration
    from perdure.model.records import NewRun, RunRow
    from perdure.model.retention import Retention
    from perdure.options import EnqueueOptions, RunFilters, RunOptions
    from perdure.queues import Queue
    from perdure.runtime.worker import Worker
    from perdure.transactional.guests import Connection
    from perdure.waiting import Home
    from perdure.workflow import Workflow

InputT = TypeVar("InputT")
R = TypeVar("R")
T = TypeVar("T")

TURN = 500
"""Inputs that are encoded before everything else on the event loop has its turn."""
FIRST, CHUNK = 100, 500
"""Runs that ``enqueue_many`` creates in one transaction, at first and at most; doubled each time, so that the first are
executed while the rest are created."""


class Client(QueueClient, ScheduleClient):
    """Answers for the runs of a store, as long as an engine has it open; made as part of an ``Engine``."""

    _home: Home
    _worker: Worker | None
    _definitions: Mapping[tuple[str, str], Workflow[Any, Any]]  # pyright: ignore[reportUninitializedInstanceVariable]
    _retention: Retention | None  # pyright: ignore[reportUninitializedInstanceVariable]
    _only: bool  # pyright: ignore[reportUninitializedInstanceVariable]

    @property
    def _ops(self) -> Operations:
        return self._home.operations

    def _poke(self) -> None:
        if self._worker is not None:
            self._worker.poke()

    @overload
    async def enqueue(self, workflow: Workflow[None, R], /, **options: Unpack[EnqueueOptions]) -> Handle[R]: ...
    @overload
    async def enqueue(
        self, workflow: Workflow[InputT, R], value: InputT, /, **options: Unpack[EnqueueOptions]
    ) -> Handle[R]: ...
    async def enqueue(  # noqa: PLR0913 - the options of a run
        self,
        workflow: Workflow[Any, R],
        value: Any = None,
        /,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        idempotency_window: Duration | Literal["ended"] | None = None,
        debounce: Duration | None = None,
        debounce_limit: Duration | None = None,
        delay: Duration | None = None,
        queue: Queue | str | None = None,
        priority: int = 0,
        partition: str | None = None,
        tags: Mapping[str, str] | None = None,
        deadline: Duration | datetime | None = None,
        within: Connection | None = None,
    ) -> Handle[R]:
        """Create a run, or find the one that is there; it is executed by whichever engine claims it.

        In a workflow's own code it is written with the run's next commit, and goes on whatever becomes of that run. In
        a step, a run without id or key of its own gets a key made of the step's, so that a repeated attempt finds it.

        Args:
            workflow: what to run.
            value: its input.
            run_id: the run's id; by default a new one.
            idempotency_key: a second enqueue with this key finds the first one's run.
            idempotency_window: how long it does: for so long after that was created, or until that has "ended". By
                default for ever.
            debounce: begin when no call with this key has come for so long. Until then each call puts the run off and
                gives it its own input, tags and priority; once it has begun, the next call creates another run.
            debounce_limit: put it off for no longer than this after the first call.
            delay: do not begin before this has passed.
            queue: where it waits to be claimed; by default the workflow's queue.
            priority: higher goes first, -1000 to 1000. An hour of waiting outweighs one level: nothing waits for ever.
            partition: whose it is, in a queue that has a limit for each partition key.
            tags: kept with the run and shown; it is found by them.
            deadline: how long the run may take from when it may begin, or an instant (an aware datetime); then it is
                cancelled, as by ``Handle.cancel``. By default the workflow's, if it has one.
            within: a connection of yours in a transaction: there is a run once that has committed, and none if it is
                rolled back. Of psycopg, SQLAlchemy (or a ``Session``), sqlite3 or apsw. Where it is to the store's own
                database, the run is created in it; else it goes through the engine's outbox, and a conflict is found
                by the worker that relays it. With a key, the id is made of that.

        Raises:
            RunConflict: the id or key is taken by another workflow or another input.
            RunPurged: it was that of a run which has been purged.
            NoTransaction: the connection that is given as ``within`` is in none.
            NotSerializable: the input cannot be stored exactly.
            DefinitionError: an option is wrong.
        """
        if within is not None:
            check_outside()
        elif current_run() is not None:
            if idempotency_key is not None or idempotency_window is not None or debounce is not None:
                raise DefinitionError(
                    "in a workflow a run is enqueued without idempotency_key",
                    advice="it is started once whatever happens",
                )
            left = deadline - now() if isinstance(deadline, datetime) else deadline
            given = workflow.with_options(
                run_id=run_id, delay=delay, tags=tags, deadline=left, abandon=True, queue=queue,
                priority=priority or None, partition=partition,
            )  # fmt: skip
            started = given.start(value) if workflow.takes_input else cast("Workflow[None, R]", given).start()
            return self._handle(workflow, None, started.run_id)
        if run_id is None and idempotency_key is None and in_step():
            idempotency_key = step_context().next_key()
        start = Start(
            run_id, idempotency_key, delay, priority, tags, deadline, queue, partition,
            idempotency_window, debounce, debounce_limit,
        )  # fmt: skip
        operations = self._ops if within is None else self._home.anywhere
        with operations.enqueuing(workflow, 1, run_id):
            if within is not None:
                return (await self.join(operations, within, workflow, [(value, start)]))[0]
            created = await operations.create([operations.new_run(workflow, value, start)], workflow)
        self._poke()
        return self._handle(workflow, created[0].row)

    async def enqueue_many(  # noqa: PLR0913 - the options of runs
        self,
        workflow: Workflow[InputT, R],
        values: Iterable[InputT],
        /,
        *,
        run_ids: Sequence[str] | None = None,
        delay: Duration | None = None,
        queue: Queue | str | None = None,
        priority: int = 0,
        partition: str | None = None,
        tags: Mapping[str, str] | None = None,
        deadline: Duration | datetime | None = None,
        within: Connection | None = None,
    ) -> list[Handle[R]]:
        """Create many runs, or find those that are there, hundreds to a transaction.

        Args:
            workflow: what to run.
            values: their inputs.
            run_ids: their ids, one per input; by default new ones.
            delay: as for ``enqueue``.
            queue: as for ``enqueue``.
            priority: as for ``enqueue``.
            partition: as for ``enqueue``, the same for all.
            tags: as for ``enqueue``, the same for all.
            deadline: as for ``enqueue``.
            within: as for ``enqueue``.

        Raises:
            RunConflict: an id is taken by another workflow or another input; the others are created all the same.
            RunPurged: an id was that of a run which has been purged; likewise.
            NotSerializable: an input cannot be stored exactly; then none was created.
            DefinitionError: an option is wrong, or an id is given twice with different inputs; then none was created.
        """
        operations = self._ops if within is None else self._home.anywhere
        values = list(values)
        if run_ids is not None and len(run_ids) != len(values):
            raise DefinitionError(f"{len(values)} inputs, but {len(run_ids)} run ids", advice="give one id per input")
        names: Sequence[str | None] = [None] * len(values) if run_ids is None else run_ids
        starts = [
            (value, Start(run_id, None, delay, priority, tags, deadline, queue, partition))
            for value, run_id in zip(values, names, strict=True)
        ]
        with operations.enqueuing(workflow, len(starts)):
            if within is not None:
                check_outside()
                return await self.join(operations, within, workflow, starts)
            new: list[NewRun] = []
            for number, (value, start) in enumerate(starts, 1):
                new.append(operations.new_run(workflow, value, start))
                if number % TURN == 0:
                    await asyncio.sleep(0)
            check_distinct(new)
            handles: list[Handle[R]] = []
            refused: RunConflict | RunPurged | None = None
            for chunk in chunks(new):
                try:
                    created = await operations.create(chunk, workflow)
                except (RunConflict, RunPurged) as error:
                    refused = refused or error
                else:
                    handles += [self._handle(workflow, one.row) for one in created]
                self._poke()
            if refused is not None:
                raise refused
        return handles

    async def join(
        self,
        operations: Operations,
        connection: Connection,
        workflow: Workflow[Any, R],
        starts: Sequence[tuple[Any, Start]],
    ) -> list[Handle[R]]:
        """Enqueue runs in a transaction of the caller's. Of a sync driver, never suspends, where no loop is running."""
        new = [operations.new_run(workflow, value, start.named(operations.namespace)) for value, start in starts]
        check_distinct(new)
        started = await joining.create(operations, connection, new, workflow)
        handles = [Handle(one.run_id, workflow, self._home, one.run_key) for one in started]
        for handle in handles:
            handle.is_expected = True
        return handles

    @overload
    async def run(self, workflow: Workflow[None, R], /, **options: Unpack[RunOptions]) -> R: ...
    @overload
    async def run(self, workflow: Workflow[InputT, R], value: InputT, /, **options: Unpack[RunOptions]) -> R: ...
    async def run(
        self,
        workflow: Workflow[Any, R],
        value: Any = None,
        /,
        *,
        run_id: str | None = None,
        deadline: Duration | datetime | None = None,
        retry_failed: bool = False,
    ) -> R:
        """Run a workflow, or attach to the run that is there, and wait for its result.

        Cancelling the caller does not touch the run.

        Args:
            workflow: what to run.
            value: its input.
            run_id: the run's id; by default a new one.
            deadline: as for ``enqueue``; of a run that is created.
            retry_failed: let a run that failed before go on from what failed, instead of raising its error.

        Raises:
            RunConflict: the id is taken by another workflow or another input.
            RunPurged: it was that of a run which has been purged.
            RunCancelled, RunBlocked: the run is in that state; it needs ``resume``.
            DriftError, IntegrityError: what is recorded does not fit the code, or is damaged.
            RunFailed: it failed with an exception that cannot be rebuilt; others are raised as themselves.
        """
        operations, worker = self._ops, self._worker
        with operations.enqueuing(workflow, 1, run_id):
            new = operations.new_run(workflow, value, Start(run_id, deadline=deadline))
            if worker is not None and (workflow.name, workflow.version) not in self._definitions:
                raise UnknownWorkflow(
                    f"{workflow!r} is not among this engine's workflows",
                    workflow=workflow.name,
                    advice="pass it to Engine(workflows=[…])",
                )
            if worker is None:
                created = (await operations.create([new], workflow))[0]
            else:
                created = (
                    await operations.create(
                        [new],
                        workflow,
                        claim_for=worker.key if worker.free > 0 else None,
                        facts=worker.facts,
                        claimed=worker.execute,
                    )
                )[0]
        row = created.row
        if created.claim is None:
            retry = retry_failed and row.status is Status.FAILED
            if retry or not (row.status.terminal or row.status is Status.BLOCKED):
                self._check_version(row, workflow)
                if retry:
                    await operations.resume_failed(row)
                if worker is not None:
                    worker.want(row)
        return await self._handle(workflow, row).result()

    def _check_version(self, row: RunRow, workflow: Workflow[Any, Any]) -> None:
        if self._only and row.version != workflow.version:
            raise RunConflict(
                f"run {row.run_id!r} began under version {row.version!r} of {row.workflow!r}, not {workflow.version!r}",
                run_id=row.run_id,
                recorded=row.version,
                found=workflow.version,
                advice="a run stays with the version it began under: go on with that one, or choose another run id",
            )

    def get(self, run_id: str, workflow: Workflow[Any, R] | None = None) -> Handle[R]:
        """Return a handle on a run; reads nothing. With ``workflow`` its result has the workflow's type."""
        if current_run() is None:
            _ = self._ops  # raises if it is not open
        return self._handle(workflow, None, run_id)

    async def why(self, run_id: str) -> Explanation:
        """Say why a run is where it is; see ``Handle.why``.

        Raises:
            RunNotFound: no such run; the advice names ids that are like it.
        """
        return await self.get(run_id).why()

    def runs(  # noqa: PLR0913 - what runs are found by
        self,
        *,
        status: Iterable[Status | str] | Status | str | None = None,
        workflow: Workflow[Any, Any] | str | None = None,
        tags: Mapping[str, str] | None = None,
        codeless: bool | None = None,
        version: str | None = None,
        queue: Queue | str | None = None,
        id_prefix: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        ended_after: datetime | None = None,
        ended_before: datetime | None = None,
        error: type[BaseException] | str | None = None,
    ) -> Runs:
        """Return the runs, newest first: to iterate over, to read by ``page``, to count, or to do something with all.

        Only those are meant that all of the arguments are true of. Where the end of runs is asked for, those that ended
        last come first.

        Args:
            status: only these statuses ("failed", …).
            workflow: only this workflow, or its name.
            tags: only runs that have all of these tags.
            codeless: only runs that could go on, but no living worker has their code; or only others. (Pages are
                short then.)
            version: only this version of workflows.
            queue: only this queue; the empty name is the default queue's.
            id_prefix: only runs whose ids begin so.
            created_after: only runs created then or later: an aware datetime.
            created_before: only runs created earlier.
            ended_after: only runs that ended then or later.
            ended_before: only runs that ended earlier.
            error: only runs that failed with, are blocked by or wait for a retry after such an error: the class of an
                exception, its name ("TimeoutError"), or the code of an error of Perdure's ("drift").

        Raises:
            DefinitionError: what is given means nothing (no such status, a datetime without a zone, …), or can be true
                of no run, as a range that ends before it begins.
        """
        where = filter_of(
            self._ops.namespace, status=status, workflow=workflow, tags=tags, version=version, queue=queue,
            id_prefix=id_prefix, created_after=created_after, created_before=created_before, ended_after=ended_after,
            ended_before=ended_before, error=error,
        )  # fmt: skip
        return Runs(self._ops, where, codeless=codeless, changed=self._poke)

    async def counts(self, **where: Unpack[RunFilters]) -> Counts:
        """Return how many runs there are, by status and by workflow: of all, or as for ``runs``.

        Raises:
            DefinitionError: as for ``runs``.
        """
        return await self.runs(**where).counts()

    async def traffic(
        self,
        *,
        since: datetime,
        until: datetime | None = None,
        buckets: int = 60,
        workflow: Workflow[Any, Any] | str | None = None,
    ) -> Traffic:
        """Return what became of runs over time: how many were created and ended, and how long they took.

        Args:
            since: from when on: an aware datetime.
            until: until before when; by default now.
            buckets: in how many parts, 1 to 1000.
            workflow: only runs of this workflow, or its name.

        Raises:
            DefinitionError: an argument is wrong, or ``until`` is not after ``since``.
        """
        operations = self._ops
        return await traffic(operations, workflow_name(workflow), since, until, buckets)

    async def prune(
        self,
        *,
        older_than: Duration | None = None,
        status: Iterable[Status | str] | Status | str | None = None,
        workflow: Workflow[Any, Any] | str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Purge runs that ended long ago: nobody finds them any more, and all that they have left behind is deleted.

        Their ids and idempotency keys stay refused, for as long as the engine's retention says. Only what has ended is
        purged; and a child is kept until its parent has completed, or is purged itself.

        Args:
            older_than: since when they have ended; by default, what the engine's retention says.
            status: only runs that have ended so; by default, however they have.
            workflow: only runs of this workflow, or its name.
            limit: at most so many.
            dry_run: only count them.

        Raises:
            DefinitionError: an option is wrong; or neither ``older_than`` nor a retention says which runs are old.
            StoreError: the store has failed; what was done stays.
        """
        operations, retention = self._ops, self._retention
        name = workflow_name(workflow)
        if older_than is not None:
            rules = chosen(operations, older_than, statuses(status), name)
        elif retention is None or status is not None or name is not None:
            raise DefinitionError(
                "nobody says how old the runs must be that are purged",
                advice='say older_than="30d", or give the engine a retention and let that say all',
            )
        else:
            rules = retention.rules(operations.store.now(), operations.namespace)
        return await prune(operations, rules, limit=limit, retention=retention, dry_run=dry_run)

    async def namespaces(self) -> list[str]:
        """Return the namespaces of the store that any run, schedule or worker was ever in, by name; "" has no name."""
        operations = self._ops
        return await operations.call(operations.store.list_namespaces)

    def _handle(self, workflow: Workflow[Any, R] | None, row: RunRow | None, run_id: str = "") -> Handle[R]:
        if row is None:
            return Handle(run_id, workflow, self._home)
        return Handle(row.run_id, workflow, self._home, row.run_key)


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Divide what is to be created into what is created together."""
    at, size = 0, FIRST
    while at < len(items):
        yield items[at : at + size]
        at, size = at + size, min(2 * size, CHUNK)
