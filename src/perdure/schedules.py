"""Recurring runs: how a program defines schedules, looks at them and changes them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, overload

from perdure.handle import Handle
from perdure.model import cadence, firing
from perdure.model.durations import to_datetime
from perdure.model.schedules import OUTCOMES, Overlap, decode_policy, names, numbers, status_of
from perdure.operations.scheduling import Plan, Scheduling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from typing import Unpack
    from zoneinfo import ZoneInfo

    from perdure.model.durations import Duration
    from perdure.model.schedules import Occurrence, ScheduleRow
    from perdure.queues import Queue
    from perdure.runtime.worker import Worker
    from perdure.waiting import Home
    from perdure.workflow import Workflow

InputT = TypeVar("InputT")
R = TypeVar("R")


class ScheduleOptions(TypedDict, total=False):
    """What ``Engine.schedule`` takes besides the workflow and its input."""

    every: Duration | None
    cron: str | None
    tz: str | ZoneInfo
    key: str | None
    overlap: Overlap
    catch_up: Duration
    jitter: Duration | None
    start: datetime | None
    end: datetime | None
    queue: Queue | str | None
    priority: int
    tags: Mapping[str, str] | None
    revision: int


@dataclass(frozen=True, slots=True)
class OccurrenceView:
    """What became of an occurrence, or of several in a row that were skipped for one reason.

    Attributes:
        at: the occurrence.
        until: the last of them; one alone is its own last.
        times: how many they are; from 1000 on there may be more.
        outcome: "started", "skipped" or "triggered" (by ``trigger()``).
        decided_at: when that was decided.
        run_id: the id of its run.
        reason: why it was skipped.
    """

    at: datetime
    until: datetime
    times: int
    outcome: Literal["started", "skipped", "triggered"]
    decided_at: datetime
    run_id: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as it is at a moment.

    Attributes:
        key: its key.
        workflow: the name of the workflow it runs.
        version: and its version.
        cadence: when it fires, in words.
        status: "active", "paused", or "ended" if nothing is to come.
        next_at: when it fires next, jitter included.
        waiting: occurrences that wait for an earlier run to end.
        running: ids of its runs that have not ended; of those that may overlap, the latest.
        overlap: what becomes of an occurrence while an earlier run goes on.
        catch_up: how late an occurrence may still be started.
        jitter: by less than this an occurrence is put off.
        start: no occurrence is earlier.
        end: no occurrence is later.
        priority: of its runs.
        tags: of its runs.
        revision: of its definition.
        created_at: when it was first defined.
        fault: why it could not be fired, where somebody tried to and could not.
    """

    key: str
    workflow: str
    version: str
    cadence: str
    status: Literal["active", "paused", "ended"]
    next_at: datetime | None
    waiting: tuple[datetime, ...]
    running: tuple[str, ...]
    overlap: Overlap
    catch_up: timedelta
    jitter: timedelta
    start: datetime | None
    end: datetime | None
    priority: int
    tags: dict[str, str]
    revision: int
    created_at: datetime
    fault: str | None


class ScheduleHandle(Generic[R]):
    """A schedule by its key. Every method reads or changes what is true at that moment, for the whole fleet.

    Attributes:
        key: the schedule's key.
    """

    __slots__ = ("_home", "_look", "_workflow", "key")

    def __init__(self, key: str, workflow: Workflow[Any, R] | None, home: Home, look: Callable[[], None]) -> None:
        self.key = key
        self._workflow = workflow
        self._home = home
        self._look = look

    def __repr__(self) -> str:
        return f"<ScheduleHandle of {self.key!r}>"

    async def view(self) -> ScheduleView:
        """Return the schedule as it is.

        Raises:
            ScheduleNotFound: it is not there.
        """
        return view_of(await self._scheduling.row(self.key))

    async def next(self, count: int = 1) -> list[datetime]:
        """Return when it will fire the next ``count`` times; fewer, or none, if it ends before, or is paused.

        Raises:
            ScheduleNotFound: it is not there.
        """
        return list(map(to_datetime, upcoming(await self._scheduling.row(self.key), count)))

    async def last(self) -> OccurrenceView | None:
        """Return what became of its latest occurrence; None if none was due yet.

        Raises:
            ScheduleNotFound: it is not there.
        """
        found = await self.history(1)
        return found[0] if found else None

    async def history(self, limit: int = 100) -> list[OccurrenceView]:
        """Return what became of its latest occurrences, latest first; about a hundred are kept.

        Raises:
            ScheduleNotFound: it is not there.
        """
        return [occurrence_view(found) for found in await self._scheduling.occurrences(self.key, limit)]

    async def pause(self) -> None:
        """Let it fire no more until it is resumed, whoever defines it again meanwhile. Runs that exist go on.

        Raises:
            ScheduleNotFound: it is not there.
        """
        await self._scheduling.pause(self.key)

    async def resume(self) -> None:
        """Let it go on with what comes next; what was due while it was paused is skipped.

        Raises:
            ScheduleNotFound: it is not there.
        """
        await self._scheduling.resume(self.key)
        self._look()

    async def trigger(self) -> Handle[R]:
        """Start a run of it now, besides its cadence and whatever its overlap says, also while it is paused.

        Raises:
            ScheduleNotFound: it is not there.
        """
        _, run_id = await self._scheduling.trigger(self.key)
        self._home.waiting.poke()
        return Handle(run_id, self._workflow, self._home)

    async def remove(self) -> bool:
        """Remove it for everybody; returns whether it was there. Its runs stay."""
        return await self._scheduling.remove(self.key)

    @property
    def _scheduling(self) -> Scheduling:
        return Scheduling(self._home.operations)


class Schedules:
    """All schedules, by key: ``async for view in engine.schedules()``, or page by page."""

    def __init__(self, scheduling: Scheduling) -> None:
        self._scheduling = scheduling

    async def __aiter__(self) -> AsyncIterator[ScheduleView]:
        cursor: str | None = ""
        while cursor is not None:
            views, cursor = await self.page(cursor)
            for view in views:
                yield view

    async def page(self, cursor: str = "", *, limit: int = 100) -> tuple[list[ScheduleView], str | None]:
        """Return up to ``limit`` schedules after ``cursor``, and the next page's cursor; None if this is the last."""
        rows = await self._scheduling.page(cursor, limit)
        return list(map(view_of, rows)), rows[-1].key if len(rows) == limit else None


class ScheduleClient:
    """The part of an engine, or of its client, that is about schedules."""

    _home: Home  # pyright: ignore[reportUninitializedInstanceVariable] - made by the engine
    _worker: Worker | None  # pyright: ignore[reportUninitializedInstanceVariable] - made by the engine

    def _look_at_schedules(self) -> None:
        if self._worker is not None:
            self._worker.scheduler.look()

    @overload
    async def schedule(
        self, workflow: Workflow[None, R], /, **options: Unpack[ScheduleOptions]
    ) -> ScheduleHandle[R]: ...
    @overload
    async def schedule(
        self, workflow: Workflow[InputT, R], value: InputT, /, **options: Unpack[ScheduleOptions]
    ) -> ScheduleHandle[R]: ...
    async def schedule(  # noqa: PLR0913 - the options of a schedule
        self,
        workflow: Workflow[Any, R],
        value: Any = None,
        /,
        *,
        every: Duration | None = None,
        cron: str | None = None,
        tz: str | ZoneInfo = "UTC",
        key: str | None = None,
        overlap: Overlap = "skip",
        catch_up: Duration = "1h",
        jitter: Duration | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        queue: Queue | str | None = None,
        priority: int = 0,
        tags: Mapping[str, str] | None = None,
        revision: int = 0,
    ) -> ScheduleHandle[R]:
        """Define a recurring run; it is stored, and fired by whichever engine has the workflow.

        To be called whenever the program starts. An unchanged schedule goes on as it was; one with another cadence
        begins anew, and one with another input or other options is changed in place.

        Args:
            workflow: what to run.
            value: its input.
            every: the time between occurrences; the first comes that long after the first definition, or at ``start``.
            cron: a cron expression of five fields, or six with seconds in front; or ``@daily`` and the like.
            tz: the zone whose clocks the expression means, by its IANA name.
            key: what the schedule is called. Without one it is named after workflow, cadence and input: if one of these
                changes, it is another schedule, and the one before goes on until it is removed.
            overlap: what becomes of an occurrence while an earlier run goes on: "skip" it, "allow" it to run beside,
                "queue" it until then, or "cancel" the earlier run and start it after that.
            catch_up: how late an occurrence may still be started, if nobody was there to start it in time; what is
                later is recorded as skipped. A second at least.
            jitter: put each occurrence off by less than this, always by the same for the same key and occurrence.
            start: no occurrence before this instant.
            end: no occurrence after this instant.
            queue: where its runs wait to be claimed; by default the workflow's queue. Whoever executes runs of that
                queue fires it.
            priority: of its runs, as for ``enqueue``.
            tags: of its runs.
            revision: a definition of a lower revision never replaces one of a higher: raise it with each change where
                old and new builds start side by side.

        Raises:
            DefinitionError: an option is wrong, or nothing would ever occur; nothing was written.
            NotSerializable: the input cannot be stored exactly; nothing was written.
        """
        plan = Plan(
            every=every, cron=cron, tz=tz, key=key, overlap=overlap, catch_up=catch_up, jitter=jitter, start=start,
            end=end, queue=queue, priority=priority, tags=tags, revision=revision,
        )  # fmt: skip
        row = await Scheduling(self._home.operations).define(workflow, value, plan, self._home.since)
        self._look_at_schedules()
        return ScheduleHandle(row.key, workflow, self._home, self._look_at_schedules)

    async def unschedule(self, key: str) -> bool:
        """Remove a schedule for the whole fleet; returns whether it was there. Its runs stay."""
        return await Scheduling(self._home.operations).remove(key)

    def get_schedule(self, key: str, workflow: Workflow[Any, R] | None = None) -> ScheduleHandle[R]:
        """Return a handle on a schedule; reads nothing. With ``workflow`` its runs have results of its type."""
        _ = self._home.operations
        return ScheduleHandle(key, workflow, self._home, self._look_at_schedules)

    def schedules(self) -> Schedules:
        """Return the schedules, by key: to iterate over with ``async for``, or to read by ``page``."""
        return Schedules(Scheduling(self._home.operations))


def view_of(row: ScheduleRow) -> ScheduleView:
    """Return a schedule for its user; what cannot be understood here is left as it is, and its fault says so."""
    fault = row.fault
    policy = decode_policy(row.policy)
    start = end = None
    try:
        when = cadence.decode(row.cadence)
        words = when.describe()
        start, end = when.start, when.end
    except Exception as error:  # noqa: BLE001 - it is shown
        words, fault = row.cadence.decode("utf-8", "replace"), fault or str(error)
    return ScheduleView(
        key=row.key,
        workflow=row.workflow,
        version=row.version,
        cadence=words,
        status=status_of(row),
        next_at=_maybe(row.next_at),
        waiting=tuple(map(to_datetime, numbers(row.waiting))),
        running=tuple(names(row.active)),
        overlap=policy.overlap,
        catch_up=timedelta(microseconds=policy.catch_up),
        jitter=timedelta(microseconds=policy.jitter),
        start=_maybe(start),
        end=_maybe(end),
        priority=policy.priority,
        tags=policy.tags or {},
        revision=row.revision,
        created_at=to_datetime(row.created_at),
        fault=fault,
    )


def occurrence_view(found: Occurrence) -> OccurrenceView:
    """Return what became of an occurrence for the schedule's user."""
    return OccurrenceView(
        at=to_datetime(found.first),
        until=to_datetime(found.last),
        times=found.times,
        outcome=OUTCOMES[found.kind],
        decided_at=to_datetime(found.at),
        run_id=found.run_id,
        reason=found.reason,
    )


def upcoming(row: ScheduleRow, count: int) -> list[int]:
    """Return when (µs) a schedule will fire the next ``count`` times.

    Raises:
        DefinitionError: its zone is not known here.
    """
    when, policy = cadence.decode(row.cadence), decode_policy(row.policy)
    found: list[int] = []
    while len(found) < count and (at := firing.due(row, when, policy)) is not None:
        found.append(at)
        following = when.next(row.watermark)
        assert following is not None
        row = row._replace(watermark=following)
    return found


def _maybe(at: int | None) -> datetime | None:
    return None if at is None else to_datetime(at)


__all__ = [
    "OccurrenceView", "ScheduleClient", "ScheduleHandle", "ScheduleOptions", "ScheduleView", "Schedules",
    "occurrence_view", "upcoming", "view_of",
]  # fmt: skip
