"""What is done to many runs for somebody: it goes on when they have closed the page, and can be stopped.

It is done by the dashboard's process, and ends with it. What was done then is in the runs' logs, and doing it again
does the rest.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perdure.errors import PerdureError
from perdure.operations import Tally

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

KEPT: Final = 100
"""Jobs that are remembered, the latest."""
AT_ONCE: Final = 8
"""Jobs that are under way at a time."""
PROMPT: Final = 0.3
"""Seconds that are waited for a job to end, before its progress is shown."""


@dataclass(slots=True)
class Job:
    """Something that is done to many runs.

    Attributes:
        job: its id.
        namespace: where the runs are.
        verb: what is done.
        by: who has asked for it.
        number: to how many runs it is to be done.
        asked: the filter.
        began_at: when (µs).
        tally: what became of them so far.
        is_asked_to_stop: whether somebody wants it to stop.
        has_ended: whether nothing more is done.
        failure: why it could not go on, if it could not.
    """

    job: str
    namespace: str
    verb: str
    by: str
    number: int
    asked: dict[str, Any]
    began_at: int
    tally: Tally = field(default_factory=Tally)
    is_asked_to_stop: bool = False
    has_ended: bool = False
    failure: str | None = None

    def watch(self, tally: Tally) -> bool:
        """Take note of how far it is; whether it goes on."""
        self.tally = tally
        return not self.is_asked_to_stop

    @property
    def state(self) -> str:
        """What is said of it."""
        if not self.has_ended:
            return "stopping" if self.is_asked_to_stop else "running"
        return "failed" if self.failure is not None else "stopped" if self.is_asked_to_stop else "done"


class Jobs:
    """The jobs of a dashboard's process."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, job: Job, work: Callable[[Job], Awaitable[Tally]], done: Callable[[Tally], object]) -> bool:
        """Begin a job; return once it has ended, or a moment later. False: there are too many already.

        Args:
            job: what is done.
            work: does it.
            done: told what became of it.
        """
        if len(self._tasks) >= AT_ONCE:
            return False

        async def go() -> None:
            try:
                job.tally = await work(job)
            except Exception as error:  # noqa: BLE001 - said on its page
                job.failure = error.headline if isinstance(error, PerdureError) else type(error).__name__
            finally:
                job.has_ended = True
                self._tasks.pop(job.job, None)
                done(job.tally)

        self._jobs[job.job] = job
        for old in [one for one, found in self._jobs.items() if found.has_ended][: max(0, len(self._jobs) - KEPT)]:
            del self._jobs[old]
        self._tasks[job.job] = task = asyncio.create_task(go(), name=f"perdure-{job.verb}")
        await asyncio.wait([task], timeout=PROMPT)
        return True

    def get(self, job: str, namespace: str) -> Job | None:
        """Return a job; None if it is not known here."""
        found = self._jobs.get(job)
        return found if found is not None and found.namespace == namespace else None

    async def close(self) -> None:
        """End all that is under way; what was done stays."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


__all__ = ["Job", "Jobs"]
