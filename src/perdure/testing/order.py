"""The order in which what goes on side by side comes to its end: drawn by lot, and the same again for the same seed."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, cast

from perdure.context import current_attempt
from perdure.runtime.bodies import Body
from perdure.runtime.transacting import TransactionalBody
from perdure.testing.fakes import double, real

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from perdure.runtime.calls import StepCall
    from perdure.steps import Step

PATIENT = 0.75
"""How probable it is that the next to happen, where both could, is a body's end rather than that time goes on."""


class Order:
    """Keeps each body that has done its work from ending until it is its turn.

    To the workflow that looks as if the body took longer: another may end before it, a timer fire, a message come in,
    or a cancel, which reaches it there.

    Args:
        lot: what the lots are drawn by; None: nothing is kept.

    Attributes:
        chosen: whether there ever was more than one thing that could have come next.
    """

    def __init__(self, lot: str | None = None) -> None:
        self._random = None if lot is None else Random(lot)  # noqa: S311 - not for secrets
        self._held: dict[Body, Callable[[], object]] = {}
        self._lock = threading.Lock()
        self._over = False
        self.chosen = False

    def __contains__(self, body: object) -> bool:
        """Whether a body is kept: all else may be at rest around it."""
        return body in self._held

    def hold(self) -> None:
        """Have the body that is about to begin wait for its turn to end."""
        if self._random is None:
            return
        body = current_attempt()
        assert isinstance(body, Body)
        call: StepCall = body.call
        if isinstance(body, TransactionalBody) and call.step.transactional is not None:
            body.patience = self._patience(body)  # in its transaction it would keep others waiting
            return
        call.step = self._patient(real(cast("Step[..., Any]", call.step)), body)

    def lets_time_pass(self, *, is_due: bool) -> bool:
        """Whether time is to go on before the next body ends; ``is_due``: whether anything would come of it."""
        if not self._held or self._random is None:
            return True
        self.chosen = self.chosen or is_due
        return self._random.random() > PATIENT

    def release(self) -> bool:
        """Let one of the bodies end; False if none is kept."""
        with self._lock:
            if not self._held:
                return False
            assert self._random is not None
            bodies = sorted(self._held, key=lambda body: (body.run.run_id, body.call.key))
            self.chosen = self.chosen or len(bodies) > 1
            release = self._held.pop(self._random.choice(bodies))
        release()
        return True

    def release_all(self) -> None:
        """Keep nothing any more: threads that wait here have to end too."""
        with self._lock:
            self._over = True
            held, self._held = self._held, {}
        for release in held.values():
            release()

    def _patient(self, step: Step[..., Any], body: Body) -> Step[..., Any]:
        """Return a step that differs in its body only."""
        actor = double(step)
        fn = step.fn
        if step.is_async:

            async def patient(*args: Any, **kwargs: Any) -> Any:
                try:
                    return await fn(*args, **kwargs)
                finally:
                    turn = asyncio.get_running_loop().create_future()
                    self._keep(body, partial(_end, turn))
                    try:
                        await turn
                    finally:
                        self._held.pop(body, None)

            actor.fn = patient
        else:

            def patient_thread(*args: Any, **kwargs: Any) -> Any:
                try:
                    return fn(*args, **kwargs)
                finally:
                    turn = threading.Event()
                    self._keep(body, turn.set)
                    turn.wait()

            actor.fn = patient_thread
        return actor

    def _patience(self, body: Body) -> Callable[[], Coroutine[Any, Any, None]]:
        """Return what waits for a body's turn, once it has done its work."""
        is_async = body.call.step.is_async

        async def wait() -> None:
            if is_async:
                turn = asyncio.get_running_loop().create_future()
                self._keep(body, partial(_end, turn))
                await turn
            else:
                bell = threading.Event()
                self._keep(body, bell.set)
                bell.wait()

        return wait

    def _keep(self, body: Body, release: Callable[[], object]) -> None:
        with self._lock:
            if not self._over:
                self._held[body] = release
                return
        release()


def _end(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


__all__ = ["Order"]
