"""A handle on a run: look at it, wait for it, cancel it, resume it, from any process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from perdure.model.durations import Duration
    from perdure.model.history import RunView
    from perdure.model.records import Event, RunRow
    from perdure.operations import Operations
    from perdure.workflow import Workflow

R = TypeVar("R")


class Waiting(Protocol):
    """How a handle waits: what the engine does for it."""

    async def result(
        self, handle: Handle[Any], workflow: Workflow[Any, Any] | None, timeout: Duration | None, /
    ) -> Any:
        """Wait for the run's end."""
        ...

    @property
    def changes(self) -> int:
        """How often something has changed so far."""
        ...

    async def change(self, since: int, /) -> None:
        """Wait until something may have changed since ``changes`` was ``since``."""
        ...

    @property
    def poke(self) -> Callable[[], None]:
        """Say that there may be something to claim."""
        ...


class Home(Protocol):
    """What the engine that made a handle has open at the moment; both raise ``EngineNotOpen`` if it has nothing."""

    @property
    def operations(self) -> Operations:
        """What can be done with runs."""
        ...

    @property
    def waiting(self) -> Waiting:
        """How to wait for them."""
        ...


class Handle(Generic[R]):
    """A run by its id. Making one reads nothing; every method reads what is true at that moment.

    It serves as long as its engine is open, also after a stop and another start; else methods raise ``EngineNotOpen``.

    Attributes:
        run_id: the run's id.
    """

    __slots__ = ("_home", "_workflow", "run_id", "run_key")

    def __init__(self, run_id: str, workflow: Workflow[Any, R] | None, home: Home, run_key: int | None = None) -> None:
        self.run_id = run_id
        self.run_key = run_key
        self._workflow = workflow
        self._home = home

    def __repr__(self) -> str:
        return f"<Handle of run {self.run_id!r}>"

    async def view(self) -> RunView:
        """Return the run as its log tells it: status, steps, attempts, what it waits for.

        Raises:
            RunNotFound: no such run.
        """
        return (await self._home.operations.view(self.run_id))[1]

    async def row(self) -> RunRow:
        """Return the run as the store lists it.

        Raises:
            RunNotFound: no such run.
        """
        return await self._home.operations.row(self.run_id)

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait until the run has ended and return its result, or raise what it ended with.

        Giving up (a timeout, a cancelled caller) does not touch the run.

        Args:
            timeout: how long to wait at most; by default for ever.

        Raises:
            RunNotFound: no such run.
            TimeoutError: it has not ended in time.
            RunCancelled, RunBlocked, RunFailed: it ended so; a workflow's own exception is raised as itself.
        """
        home = self._home
        _ = home.operations  # or it raises that there are none
        result: R = await home.waiting.result(self, self._workflow, timeout)
        return result

    async def cancel(self, reason: str = "") -> None:
        """Ask the run to end; at once if nobody executes it, else its workflow sees a cancellation.

        Raises:
            RunNotFound: no such run.
            WrongState: it has completed or failed already.
        """
        await self._home.operations.cancel(self.run_id, reason)

    async def resume(self, *, accept_drift: bool = False) -> None:
        """Let a failed, cancelled or blocked run go on from what is recorded.

        Raises:
            RunNotFound: no such run.
            WrongState: it is not in such a state.
        """
        home = self._home
        await home.operations.resume(self.run_id, accept_drift=accept_drift)
        home.waiting.poke()

    async def events(self, *, follow: bool = False, after: int = 0) -> AsyncIterator[Event]:
        """Iterate over the run's event log.

        Args:
            follow: go on with new events as they are committed, until the run has completed, failed or been cancelled.
                A run that is blocked has not ended: it may be resumed, and is followed on.
            after: leave out events up to this seq.

        Raises:
            RunNotFound: no such run.
        """
        home = self._home
        while True:
            operations, waiting = home.operations, home.waiting
            seen = waiting.changes
            row = await operations.row(self.run_id)
            for event in await operations.events(row, after):
                after = event.seq
                yield event
            if not follow or row.status.terminal:
                return
            await waiting.change(seen)
