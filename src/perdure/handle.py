"""A handle on a run: look at it, wait for it, cancel it, resume it, from any process."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from perdure.context import DEFAULT_STREAM, check_outside, current_run, on_run
from perdure.diagnosis import why
from perdure.errors import Undecodable
from perdure.model.durations import to_datetime
from perdure.model.payloads import stream_args
from perdure.model.records import Kind
from perdure.operations import joining, signalling
from perdure.operations.forking import fork, forks_of
from perdure.runtime.reports import named
from perdure.signals import cancellation, message
from perdure.streams import Emitted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from perdure.diagnosis import Explanation
    from perdure.model.codec import ValueCodec
    from perdure.model.durations import Duration
    from perdure.model.history import RunView
    from perdure.model.records import Event, RunRow
    from perdure.operations import Operations
    from perdure.signals import Signal
    from perdure.streams import Stream
    from perdure.transactional.guests import Connection
    from perdure.workflow import Workflow

R = TypeVar("R")
T = TypeVar("T")


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
    def anywhere(self) -> Operations:
        """The same for what is done on another loop, or on none."""
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
        is_expected: whether the run may not be there yet, as it was enqueued ``within`` a transaction.
    """

    __slots__ = ("_home", "_workflow", "is_expected", "run_id", "run_key")

    def __init__(self, run_id: str, workflow: Workflow[Any, R] | None, home: Home, run_key: int | None = None) -> None:
        self.run_id = run_id
        self.run_key = run_key
        self.is_expected = False
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

    async def why(self) -> Explanation:
        """Say why the run is where it is: what it waits for, who has it, until when, and what to do.

        Raises:
            RunNotFound: no such run; the advice names ids that are like it.
        """
        operations = self._home.operations
        return await operations.call(lambda: why(operations.store, self.run_id, operations.namespace))

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait until the run has ended and return its result, or raise what it ended with.

        Giving up (a timeout, a cancelled caller) does not touch the run. One that was enqueued ``within`` a transaction
        is waited for until it is there: for ever if that was rolled back, and there is no timeout.

        Args:
            timeout: how long to wait at most; by default for ever.

        Raises:
            RunNotFound: no such run.
            RunPurged: it has ended and was purged since.
            TimeoutError: it has not ended in time.
            RunCancelled, RunBlocked, RunFailed: it ended so; a workflow's own exception is raised as itself.
        """
        home = self._home
        _ = home.operations  # or it raises that there are none
        result: R = await home.waiting.result(self, self._workflow, timeout)
        return result

    async def cancel(self, reason: str = "", *, force: bool = False) -> None:
        """Ask the run to end: its workflow sees a cancellation, wherever it is, cleans up and ends as cancelled.

        A run whose code has not begun, that is blocked, or whose code no living worker has, is ended at once. But one
        that has something to undo (see ``perdure.saga``) stays asked until a worker with its code comes, and if it is
        blocked until it is resumed.

        Args:
            reason: kept with the run and shown.
            force: end it at once unless a worker executes it at the moment: its code cleans nothing up and undoes
                nothing, and its log says what was not undone.

        Raises:
            RunNotFound: no such run.
            WrongState: it has completed or failed already.
        """
        if current_run() is not None:
            on_run(lambda run: run.send(cancellation(reason)._replace(run_id=self.run_id)))
            return
        home = self._home
        await home.operations.cancel(self.run_id, reason, force=force)
        home.waiting.poke()

    async def signal(
        self,
        signal: Signal[T] | str,
        value: T = None,  # type: ignore[assignment]
        *,
        idempotency_key: str | None = None,
        within: Connection | None = None,
    ) -> bool:
        """Send the run a signal. Once this returns it is kept, whatever dies: the run has it when it comes to wait.

        In a workflow's own code the signal is sent with the run's next commit.

        Args:
            signal: the signal, or its name. By name the message's type is checked when the run receives it.
            value: the message.
            idempotency_key: a second signal of this name with this key is not sent again.
            within: a connection of yours in a transaction, as for ``Engine.enqueue``: it is sent once that has
                committed, by the engine's outbox, and nobody says here whether the run is there to hear it.

        Returns:
            Whether it was sent; False if it had been already.

        Raises:
            RunNotFound: no such run.
            WrongState: it has ended.
            NotSerializable: the message is not of the signal's type, or cannot be stored exactly.
            DefinitionError: the name, or the idempotency key, is wrong.
        """
        what = message(signal, value, idempotency_key)
        if within is not None:
            check_outside()
            await joining.send(self._home.anywhere, within, self.run_id, what)
            return True
        if current_run() is not None:
            on_run(lambda run: run.send(what._replace(run_id=self.run_id)))
            return True
        home = self._home
        sent = await signalling.send(home.operations, self.run_id, what)
        home.waiting.poke()
        return sent

    async def pause(self, reason: str = "") -> None:
        """Let the run rest until it is resumed: at once, or when the steps that it executes have ended.

        Signals that come meanwhile are kept, and time goes on: what is due by then happens at the resume.

        Raises:
            RunNotFound: no such run.
            WrongState: it has ended, or is blocked.
        """
        await self._home.operations.pause(self.run_id, reason)

    async def resume(self, *, accept_drift: bool = False) -> None:
        """Let a failed, cancelled or blocked run go on from what is recorded.

        Raises:
            RunNotFound: no such run.
            WrongState: it is not in such a state.
        """
        home = self._home
        await home.operations.resume(self.run_id, accept_drift=accept_drift)
        home.waiting.poke()

    async def fork(self, from_step: str, *, run_id: str | None = None, keep_keys: bool = False) -> Handle[R]:
        """Make a new run that has recorded what this one had when it came to a step, and does the rest anew.

        This run stays as it is, and may be in any state. The fork has the same input, version, priority and tags.

        Args:
            from_step: the first step to be done anew: its key, or its name for its first call.
            run_id: the fork's id; by default a new one. If the very same fork is there already, it is returned.
            keep_keys: let its steps have this run's idempotency keys, so that what they did is not done twice outside;
                by default it has keys of its own.

        Raises:
            RunNotFound: no such run.
            StepNotFound: the run has not come to such a step; the error names those it has come to.
            WrongState: the run was cancelled, and had begun to undo what it had done before it came to that step.
            RunConflict: the fork's id is taken by another run.
            RunPurged: this run, or one that had the fork's id, has been purged.
            IntegrityError: what is to be copied is damaged.
        """
        home = self._home
        forked = (await fork(home.operations, self.run_id, from_step, new_id=run_id, keep_keys=keep_keys)).row
        home.waiting.poke()
        return Handle(forked.run_id, self._workflow, home, forked.run_key)

    async def forks(self) -> list[Handle[R]]:
        """Return the runs that were forked from this one, the newest first; of more than a thousand, those.

        Raises:
            RunNotFound: no such run.
        """
        home = self._home
        found = await forks_of(home.operations, await home.operations.row(self.run_id))
        return [Handle(row.run_id, self._workflow, home, row.run_key) for row in found]

    async def events(self, *, follow: bool = False, after: int = 0) -> AsyncGenerator[Event]:
        """Iterate over the run's event log.

        Args:
            follow: go on with new events as they are committed, until the run has completed, failed or been cancelled.
                A run that is blocked has not ended: it may be resumed, and is followed on.
            after: leave out events up to this seq.

        Raises:
            RunNotFound: no such run.
        """
        async with aclosing(self._pages(follow=follow, after=after)) as pages:
            async for page in pages:
                for event in page:
                    yield event

    @overload
    def stream(self, stream: Stream[T], /, *, after: int = 0, follow: bool = True) -> AsyncGenerator[Emitted[T]]: ...
    @overload
    def stream(
        self, stream: str = DEFAULT_STREAM, /, *, after: int = 0, follow: bool = True
    ) -> AsyncGenerator[Emitted[Any]]: ...
    async def stream(
        self, stream: Stream[Any] | str = DEFAULT_STREAM, /, *, after: int = 0, follow: bool = True
    ) -> AsyncGenerator[Emitted[Any]]:
        """Iterate over the values that the run has emitted to a stream, in order, in whichever process it is executed.

        Every value is committed before it is seen here. To go on elsewhere or later, read on with the ``seq`` of the
        last one: none is left out and none comes twice. A step that is tried again, or repeated after a crash, may emit
        the same again; ``attempt`` says which one a value is of.

        Args:
            stream: the stream's name; or the stream, and the values have its type.
            after: leave out values up to this seq.
            follow: go on with new values until the run has completed, failed or been cancelled; else stop at the end.

        Raises:
            RunNotFound: no such run.
            DefinitionError: that is no name of a stream.
            Undecodable: a value does not fit the stream's type; fields: seq.
            IntegrityError: a large value, kept beside the log, is gone or not what was written.
        """
        name, codec = named(stream)
        wanted = stream_args(name)
        async with aclosing(self._pages(follow=follow, after=after)) as pages:
            async for page in pages:
                for event in page:
                    if event.kind == Kind.EMITTED and event.args == wanted:
                        yield await self._emitted(event, name, codec)

    async def _emitted(self, event: Event, stream: str, codec: ValueCodec) -> Emitted[Any]:
        data = await self._home.operations.payload(event)
        try:
            value = codec.decode(data)
        except Undecodable as misfit:
            raise Undecodable(
                f"value {event.seq} of stream {stream!r} of run {self.run_id!r}: {misfit.message}",
                advice=f"read it by name ({stream!r}) to see what it is, or go on with after={event.seq}",
                **{**misfit.fields, "seq": event.seq},
            ) from misfit
        return Emitted(event.seq, value, event.attempt, event.key or "", to_datetime(event.at))

    async def _pages(self, *, follow: bool, after: int) -> AsyncGenerator[list[Event]]:
        """Read the log page by page; nothing is held between two pages, however long whoever reads takes."""
        home = self._home
        run_key: int | None = None
        while True:
            operations, waiting = home.operations, home.waiting
            seen = waiting.changes
            if run_key is None:
                row = await operations.row(self.run_id)
                run_key = row.run_key
            else:  # this run's, also if another has its id by now
                row = await operations.row_of(run_key, self.run_id)
            # The row came first, so what ended the run is in the log by now.
            while page := await home.operations.page(run_key, after):
                after = page[-1].seq
                yield page
            if not follow or row.status.terminal:
                if after < row.seq:  # it was purged meanwhile
                    await operations.row_of(run_key, self.run_id)
                return
            await waiting.change(seen)
