"""The engine under test for tests without ``async``: its loop runs on a thread of its own, and the methods block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.portal import Portal
from perdure.sync import Engine, Handle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self, Unpack

    from perdure.model.durations import Duration
    from perdure.options import EnqueueOptions
    from perdure.steps import Step
    from perdure.testing.clock import ManualClock
    from perdure.testing.environment import Env
    from perdure.testing.fakes import Fake, Override
    from perdure.testing.ran import Ran
    from perdure.testing.script import Cue
    from perdure.workflow import Workflow

InputT = TypeVar("InputT")
R = TypeVar("R")


class SyncEnv:
    """What ``with env(workflows=[…]) as env`` gives; see ``Env``, whose methods it has, blocking."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._portal = Portal()

    def __enter__(self) -> Self:
        self._portal.enter()
        try:
            self._portal.call(self._env.__aenter__())
        except BaseException:
            self._portal.leave()
            raise
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *exc: object) -> None:
        try:
            self._portal.call(self._env.__aexit__(exc_type, *exc))
        finally:
            self._portal.leave()

    @property
    def clock(self) -> ManualClock:
        """Its clock; see ``Env``."""
        return self._env.clock

    @property
    def log(self) -> str:
        """Once the block was left by an exception: its runs and their events, as text."""
        return self._env.log

    @property
    def engine(self) -> Engine:
        """The engine, blocking: for schedules, lists of runs, signals to many; after a crash another one."""
        return Engine.around(self._env.engine, self._portal)

    @overload
    def run(self, workflow: Workflow[None, R], /, *, run_id: str | None = None, signals: Sequence[Cue] = ()) -> R: ...
    @overload
    def run(
        self, workflow: Workflow[InputT, R], value: InputT, /, *, run_id: str | None = None, signals: Sequence[Cue] = ()
    ) -> R: ...
    def run(
        self,
        workflow: Workflow[Any, R],
        value: Any = None,
        /,
        *,
        run_id: str | None = None,
        signals: Sequence[Cue] = (),
    ) -> R:
        """Run a workflow to its end and return its result; see ``Env.run``."""
        return self._portal.call(self._env.run(workflow, value, run_id=run_id, signals=signals))

    @overload
    def start(self, workflow: Workflow[None, R], /, **options: Unpack[EnqueueOptions]) -> Handle[R]: ...
    @overload
    def start(
        self, workflow: Workflow[InputT, R], value: InputT, /, **options: Unpack[EnqueueOptions]
    ) -> Handle[R]: ...
    def start(self, workflow: Workflow[Any, R], value: Any = None, /, **options: Unpack[EnqueueOptions]) -> Handle[R]:
        """Start a run and leave time to ``advance``; see ``Env.start``."""
        return Handle(self._portal.call(self._env.start(workflow, value, **options)), self._portal)

    def idle(self) -> None:
        """Wait until nothing is under way: only time, or a signal, could make a run go on."""
        self._portal.call(self._env.idle())

    def advance(self, duration: Duration) -> None:
        """Let time pass; see ``Env.advance``."""
        self._portal.call(self._env.advance(duration))

    def crash(self) -> None:
        """Let the process die and another one go on with its runs; see ``Env.crash``."""
        self._portal.call(self._env.crash())

    def override(self, step: Step[..., R], fake: Fake[R]) -> Override:
        """Let a fake stand in for a step's body; see ``Env.override``."""
        return self._env.override(step, fake)

    def ran(self, step: Step[..., Any]) -> Ran:
        """Return how often a step's body really began so far; see ``Env.ran``."""
        return self._env.ran(step)


__all__ = ["SyncEnv"]
