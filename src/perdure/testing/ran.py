"""Which bodies of steps really ran in a test: what is recorded, and replayed, is not among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class BodyRan:
    """A body of a step that began.

    Attributes:
        run_id: the run it belongs to.
        key: the step's key in the run's log.
        attempt: which attempt it was, from 1; after a crash the same one runs again.
        idempotency_key: the same for every attempt.
        arguments: what it was called with, by name; defaults are filled in, ``self`` and the context left out.
        faked: whether a fake stood in for the step's own function.
    """

    run_id: str
    key: str
    attempt: int
    idempotency_key: str
    arguments: Mapping[str, Any]
    faked: bool

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.key}({given}) of run {self.run_id}, attempt {self.attempt}{' (fake)' if self.faked else ''}"


@dataclass(frozen=True, slots=True)
class Ran:
    """How often a step's body began, and with what: ``env.ran(charge).count == 1``.

    Attributes:
        step: the step's name.
        calls: each body that began, in order: one for every attempt, and for one repeated after a crash.
    """

    step: str
    calls: tuple[BodyRan, ...]

    @property
    def count(self) -> int:
        """How many bodies began."""
        return len(self.calls)

    @property
    def arguments(self) -> list[dict[str, Any]]:
        """What each was called with."""
        return [dict(call.arguments) for call in self.calls]

    def __bool__(self) -> bool:
        return bool(self.calls)

    def __repr__(self) -> str:
        if not self.calls:
            return f"<{self.step} never ran>"
        return f"<{self.step} ran {self.count}×: {'; '.join(map(str, self.calls))}>"


__all__ = ["BodyRan", "Ran"]
