"""An engine to test workflows with: a store of its own, a clock moved by hand, steps whose bodies can be faked."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, overload

from perdure.config import default_codecs
from perdure.errors import DefinitionError, EngineNotOpen
from perdure.handle import Handle
from perdure.model import ids
from perdure.model.records import Status
from perdure.runtime.limits import Limits
from perdure.store.coded import coded
from perdure.store.open import open_store
from perdure.testing.clock import EitherTimeouts, ManualClock
from perdure.testing.completion import complete, not_finished
from perdure.testing.dying import kill
from perdure.testing.family import family
from perdure.testing.process import Mortal
from perdure.testing.script import Script, Scripts
from perdure.testing.stage import Stage
from perdure.testing.telling import tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self, Unpack

    from perdure.engine import Engine
    from perdure.handle import Waiting
    from perdure.hooks import Hooks
    from perdure.model.durations import Duration
    from perdure.operations import Operations
    from perdure.options import EnqueueOptions
    from perdure.runtime.host import OnDrift
    from perdure.steps import Step
    from perdure.store.protocol import Store
    from perdure.testing.fakes import Fake, Override
    from perdure.testing.ran import Ran
    from perdure.testing.script import Cue
    from perdure.workflow import Workflow

InputT = TypeVar("InputT")
R = TypeVar("R")


class _OfEngine(TypedDict, total=False):
    """What ``Engine`` is given as it is."""

    tools: Any
    concurrency: int
    threads: int
    crash_cap: int
    on_drift: OnDrift
    hooks: Iterable[Hooks]


class EnvOptions(_OfEngine, total=False):
    """What ``env`` takes, besides options of ``Engine``.

    Attributes:
        workflows: what can be run; children are found by their names in the code of these.
        clock: the clock to move; by default a new one.
    """

    workflows: Iterable[Workflow[Any, Any]]
    clock: ManualClock | None


class Env:
    """What ``async with env(workflows=[…]) as env`` gives: an engine under test.

    Attributes:
        clock: its clock. It stands still but for ``run`` and ``advance``; ``clock.advance("30s")`` moves it under a
            body that is under way, which ``env.advance`` waits for.
        log: once the block was left by an exception: its runs and their events, as text.
    """

    def __init__(self, **options: Unpack[EnvOptions]) -> None:
        if unknown := options.keys() - EnvOptions.__annotations__.keys():
            raise DefinitionError(
                f"env takes no {', '.join(sorted(unknown))}", advice=f"it takes {', '.join(EnvOptions.__annotations__)}"
            )
        named = list(options.get("workflows", ()))
        self._workflows = family(named[0], named[1:]) if named else []
        self.clock = options.get("clock") or ManualClock()
        self.log = ""
        passed_on: Any = {name: value for name, value in options.items() if name in _OfEngine.__annotations__}
        self._options: _OfEngine = passed_on
        self._time = EitherTimeouts(self.clock)
        self._stage = Stage()
        self._engine: Mortal | None = None
        self._store: Store | None = None
        self._stack = AsyncExitStack()
        self._changing = asyncio.Lock()
        self._scripts = Scripts()
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="perdure-", ignore_cleanup_errors=True)))
            opened = open_store(folder / "test.db", durability="process", clock=self._time)
            self._store = coded(stack.enter_context(closing(opened)), default_codecs())
            await self._begin()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, *_exc: object) -> None:
        try:
            if exc_type is not None and self._store is not None:
                self.log = tell(self._store)
            async with self._changing:
                engine, self._engine = self._engine, None
                if engine is not None:
                    await self._end(engine)
        finally:
            await self._stack.aclose()
            self._store = None

    async def _end(self, engine: Mortal) -> None:
        """End an engine, whatever its bodies do: what hangs, on a thread too, is left behind."""
        if not engine.is_busy:
            await engine.stop(0)
            return
        tools = engine.tools
        try:
            await self._kill(engine)
        finally:
            if tools is not None:
                await tools.aclose()

    async def _kill(self, engine: Mortal) -> None:
        assert self._store is not None
        await kill(engine, self._store, cap=self._options.get("crash_cap", Limits().crash_cap))

    @property
    def engine(self) -> Engine:
        """The engine: for schedules, lists of runs, signals to many; after a crash another one.

        Raises:
            EngineNotOpen: outside the block.
        """
        return self._mortal

    @property
    def _mortal(self) -> Mortal:
        if self._engine is None:
            raise EngineNotOpen("there is no engine outside the block", advice="write `async with env(…) as env:`")
        return self._engine

    # -- running

    @overload
    async def run(
        self, workflow: Workflow[None, R], /, *, run_id: str | None = None, signals: Sequence[Cue] = ()
    ) -> R: ...
    @overload
    async def run(
        self, workflow: Workflow[InputT, R], value: InputT, /, *, run_id: str | None = None, signals: Sequence[Cue] = ()
    ) -> R: ...
    async def run(
        self,
        workflow: Workflow[Any, R],
        value: Any = None,
        /,
        *,
        run_id: str | None = None,
        signals: Sequence[Cue] = (),
    ) -> R:
        """Run a workflow to its end and return its result; whenever nothing else happens, time goes on.

        The same call with the same ``run_id`` goes on with a run that is there, also with one that failed.

        Args:
            workflow: what to run.
            value: its input.
            run_id: the run's id; by default a new one.
            signals: what is sent, as pairs of a signal (or its name) and a message: each when the run, or a child of
                it, waits for that signal, and before time goes on.

        Raises:
            RunNotFinished: it waits for what never comes.
            Exception: what the workflow failed with.
        """
        run_id = run_id or ids.run_id(self.clock.now(), os.urandom)
        script = Script(signals, run_id)
        self._scripts.parts.append(script)
        try:
            while True:
                engine = self._mortal
                try:
                    return await complete(engine, workflow, value, run_id, self.clock, self._scripts, self._turn)
                except EngineNotOpen:
                    async with self._changing:  # a crash; it goes on in the next engine
                        if self._engine is engine:
                            raise
        finally:
            self._scripts.parts.remove(script)

    @overload
    async def start(self, workflow: Workflow[None, R], /, **options: Unpack[EnqueueOptions]) -> EnvHandle[R]: ...
    @overload
    async def start(
        self, workflow: Workflow[InputT, R], value: InputT, /, **options: Unpack[EnqueueOptions]
    ) -> EnvHandle[R]: ...
    async def start(
        self, workflow: Workflow[Any, R], value: Any = None, /, **options: Unpack[EnqueueOptions]
    ) -> EnvHandle[R]:
        """Start a run, as ``Engine.enqueue`` does, and leave time to ``advance``; returns a handle on it."""
        handle = await self._mortal.enqueue(workflow, value, **options)
        return EnvHandle(handle.run_id, workflow, self, handle.run_key)

    async def idle(self) -> None:
        """Wait until nothing is under way: only time, or a signal, could make a run go on."""
        await self._mortal.idle()

    async def advance(self, duration: Duration) -> None:
        """Let time pass: all that is due meanwhile happens in its order, and what follows from it, before this returns.

        A body that is under way is waited for; to have it time out, use ``clock.advance``.
        """
        async with self._turn:
            await self.clock.pass_time(duration, self._mortal)

    async def crash(self) -> None:
        """Let the process die, as by SIGKILL, and another one go on with its runs.

        What was committed is there, nothing else is; a body that was under way runs again, with the same attempt and
        idempotency key. Handles and overrides stay good. As nothing can kill code in one process, an async body is
        cancelled, and a sync one finds ``ctx.cancelled`` and has two seconds to end.
        """
        async with self._changing:
            engine, self._engine = self._mortal, None
            try:
                await self._kill(engine)
            finally:
                await self._begin()

    async def _begin(self) -> None:
        """Start an engine."""
        engine = Mortal(
            self._store,
            workflows=self._workflows,
            clock=self._time,
            reached=self._stage.reached,
            **self._options,
        )
        await engine.start()
        self._engine = engine

    # -- steps

    def override(self, step: Step[..., R], fake: Fake[R]) -> Override:
        """Let a fake stand in for a step's body, from now on or, as a context manager, for a block.

        The step keeps its name, options, retries and types, and its outcome is recorded as ever. A method found at a
        class is faked for all instances, and the fake gets ``self``; one found at an instance for this one, without.
        A step that another step's body calls is no step there, and not faked.

        Args:
            step: what @step made.
            fake: a function, async or not, with the step's parameters (and its ``ctx`` keyword, if it wants that); a
                value, which is the step's result; or an exception, which it raises.

        Raises:
            DefinitionError: that is no step, or the function cannot be called as the step's own.
            NotSerializable: the value could not be the step's result.
        """
        return self._stage.override(step, fake)

    def ran(self, step: Step[..., Any]) -> Ran:
        """Return how often a step's body really began so far, and with what; not what was recorded and replayed.

        Raises:
            DefinitionError: that is no step.
        """
        return self._stage.ran(step)


class EnvHandle(Handle[R]):
    """A handle on a run under test: good over crashes, and one that does not wait for a clock that stands still."""

    __slots__ = ("_env",)

    def __init__(self, run_id: str, workflow: Workflow[Any, R], env: Env, run_key: int | None) -> None:
        super().__init__(run_id, workflow, _EnvHome(env), run_key)
        self._env = env

    async def result(self, timeout: Duration | None = None) -> R:
        """Return the run's result, or raise what it ended with, as ``Handle.result`` does.

        Args:
            timeout: wait so long in real time, for another task of the test to move the clock, say.

        Raises:
            RunNotFinished: without ``timeout``: it has not ended, and nothing is under way.
        """
        if timeout is None:
            await self._env.idle()
            row = await self.row()
            if not row.status.terminal and row.status is not Status.BLOCKED:
                raise not_finished(
                    row,
                    await self.view(),
                    "the clock stands still",
                    advice='let time pass with env.advance("1h"), send what it waits for, or use env.run(…)',
                )
        return await super().result(timeout)


class _EnvHome:
    """What the engine of the moment has open."""

    def __init__(self, env: Env) -> None:
        self._env = env

    @property
    def operations(self) -> Operations:
        return self._env._mortal.home.operations  # noqa: SLF001 - part of it

    @property
    def anywhere(self) -> Operations:
        return self._env._mortal.home.anywhere  # noqa: SLF001 - part of it

    @property
    def waiting(self) -> Waiting:
        return self._env._mortal.home.waiting  # noqa: SLF001 - part of it


__all__ = ["Env", "EnvHandle", "EnvOptions"]
