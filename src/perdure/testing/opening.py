"""The way in: ``env(…)`` opens an engine under test, for an async test or for one without ``async``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from perdure.context import refuse_on_loop
from perdure.testing.blocking import SyncEnv
from perdure.testing.environment import Env

if TYPE_CHECKING:
    from typing import Unpack

    from perdure.testing.environment import EnvOptions


class EnvFactory(Protocol):
    """What ``env`` is, and the fixture ``perdure_env``."""

    def __call__(self, **options: Unpack[EnvOptions]) -> Opening:
        """Set up an engine under test."""
        ...


def env(**options: Unpack[EnvOptions]) -> Opening:
    """Set up an engine to test workflows with.

    In an async test it is ``async with env(workflows=[fulfil], tools=fakes) as env:``; in one without ``async`` it is
    ``with env(…) as env:``, and the methods block. The store is a temporary file, and the clock stands still but where
    the test lets time pass.

    Args:
        **options: ``workflows`` that can be run (children are found by their names in the code of these), ``tools``,
            a ``clock`` to use instead of a new one, and of the engine ``concurrency``, ``threads``, ``crash_cap``,
            ``on_drift`` and ``hooks``.

    Raises:
        DefinitionError: there is no such option; a wrong one is refused when it is opened.
    """
    return Opening(**options)


class Opening:
    """An engine under test that is not open yet: for ``async with`` or ``with``, once.

    Attributes:
        env: what is opened.
    """

    def __init__(self, **options: Unpack[EnvOptions]) -> None:
        self.env = Env(**options)
        self._blocking: SyncEnv | None = None

    async def __aenter__(self) -> Env:
        return await self.env.__aenter__()

    async def __aexit__(self, exc_type: type[BaseException] | None, *exc: object) -> None:
        await self.env.__aexit__(exc_type, *exc)

    def __enter__(self) -> SyncEnv:
        refuse_on_loop(
            "`with env(…)` would block the event loop it is written in", advice="write `async with env(…) as env:`"
        )
        self._blocking = SyncEnv(self.env)
        return self._blocking.__enter__()

    def __exit__(self, exc_type: type[BaseException] | None, *exc: object) -> None:
        assert self._blocking is not None
        self._blocking.__exit__(exc_type, *exc)


__all__ = ["EnvFactory", "Opening", "env"]
