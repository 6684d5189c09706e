"""Runs that this build cannot go on with: they are left to other builds, and blocked once none is left for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.records import Kind
from perdure.runtime.about import about
from perdure.runtime.endings import misfit
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from perdure.model.records import Event
    from perdure.runtime.host import Host
    from perdure.runtime.journal import Journal
    from perdure.runtime.run import Run
    from perdure.store.protocol import Store

PAUSE = 1.0
"""Seconds before a refusal that the store did not take is tried again."""


class Refusing:
    """Refuses one worker's runs, and looks for refused ones that nobody is left for; lives on its loop.

    Args:
        store: where the runs are.
        journal: what writes.
        host: the process.
        every: seconds between looks; for so long a build that went away is waited for.
        holds: whether the worker still holds a run, and is to try again if the store fails.
        done: told of each refused run, with the events it ended its hold with; none if the claim was lost.
    """

    def __init__(
        self,
        store: Store,
        journal: Journal,
        host: Host,
        *,
        every: float,
        holds: Callable[[Run], bool],
        done: Callable[[Run, list[Event]], None],
    ) -> None:
        self._store, self._journal, self._host = store, journal, host
        self._every = every
        self._holds, self._done = holds, done
        self._next = host.clock.monotonic() + every
        self._stranded: list[int] = []
        self._looking = False

    def refuse(self, run: Run) -> None:
        """Write that this build refuses a run, which is dropped; tried until it is taken."""
        key, epoch, build, payload = run.run_key, run.epoch, self._host.build, misfit(run)

        def answered(future: asyncio.Future[list[Event]]) -> None:
            error = future.exception()
            if error is None:
                self._tell(run, future.result())
            elif self._holds(run):
                say(lines.RUN_NOT_REFUSED, error=error, pause=PAUSE, **about(run))
                self._host.loop.call_later(PAUSE, self.refuse, run)
            else:
                self._done(run, [])

        verb = self._journal.call(lambda: self._store.refuse_run(key, epoch, build, payload))
        verb.add_done_callback(answered)

    def _tell(self, run: Run, events: list[Event]) -> None:
        if events and events[-1].kind == Kind.RUN_RELEASED:
            say(lines.RUN_LEFT_TO_OTHERS, error=run.verdict, **about(run))
        if self._host.hooks is not None:
            self._host.hooks.wrote(run, events)
        self._done(run, events)

    def look(self) -> None:
        """Block what nobody has been left for since the last look, which was some time ago."""
        now = self._host.clock.monotonic()
        if self._looking or now < self._next:
            return
        self._next = now + self._every
        self._looking = True
        seen = self._stranded
        self._journal.call(lambda: self._store.block_stranded(seen)).add_done_callback(self._looked)

    def _looked(self, done: asyncio.Future[list[int]]) -> None:
        self._looking = False
        if (error := done.exception()) is not None:
            say(lines.STRANDED_UNKNOWN, error=error, worker=self._host.worker)
            return
        self._stranded = done.result()


__all__ = ["Refusing"]
