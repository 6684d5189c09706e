"""What an engine under test plays: it notes each body that begins, and puts a fake in its place if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from perdure.context import current_attempt
from perdure.runtime import points
from perdure.runtime.bodies import Body
from perdure.testing.fakes import Override, bind, check_step, is_of, real, signature_of
from perdure.testing.ran import BodyRan, Ran

if TYPE_CHECKING:
    from perdure.steps import Step


class Stage:
    """The overrides of a test and what ran in it, over all engines that it has; told by ``Engine(reached=…)``."""

    def __init__(self) -> None:
        self._overrides: list[Override] = []
        self._ran: list[tuple[Step[..., Any], BodyRan]] = []

    def override(self, step: Step[..., Any], fake: object) -> Override:
        """Let a fake stand in for a step's body; raises as ``Override`` does."""
        return Override(step, fake, self._overrides)

    def ran(self, step: Step[..., Any]) -> Ran:
        """Return which bodies of a step began.

        Raises:
            DefinitionError: that is no step.
        """
        check_step(step)
        return Ran(step.name, tuple(one for played, one in self._ran if is_of(played, step)))

    def reached(self, point: str) -> None:
        """A point of ``perdure.runtime.points`` is reached."""
        if point != points.BODY:
            return
        body = current_attempt()
        assert isinstance(body, Body)
        call, context = body.call, body.step_context()
        step = real(cast("Step[..., Any]", call.step))
        override = next((one for one in reversed(self._overrides) if one.covers(step)), None)
        call.step = step if override is None else override.stand_in(step)
        given = bind(signature_of(step), call.prepared.args, _without(call.prepared.kwargs, step.takes_ctx))
        self._ran.append(
            (
                step,
                BodyRan(
                    context.run_id,
                    context.key,
                    context.attempt,
                    context.idempotency_key,
                    dict(given.arguments),
                    override is not None,
                ),
            )
        )


def _without(kwargs: dict[str, Any], name: str | None) -> dict[str, Any]:
    return {key: value for key, value in kwargs.items() if key != name}


__all__ = ["Stage"]
