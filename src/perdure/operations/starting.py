"""What a run that is to be created is given, and what is checked of it before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from perdure.errors import DefinitionError
from perdure.model.durations import FOREVER, micros
from perdure.model.ids import run_id_of_key, valid_run_id
from perdure.model.records import Reuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from perdure.model.durations import Duration
    from perdure.model.records import NewRun
    from perdure.queues import Queue


@dataclass(frozen=True, slots=True)
class Start:
    """Options of a run that is to be created."""

    run_id: str | None = None
    idempotency_key: str | None = None
    delay: Duration | None = None
    priority: int = 0
    tags: Mapping[str, str] | None = None
    deadline: Duration | datetime | None = None
    queue: Queue | str | None = None
    partition: str | None = None
    idempotency_window: Duration | Literal["ended"] | None = None
    debounce: Duration | None = None
    debounce_limit: Duration | None = None

    def named(self, namespace: str) -> Start:
        """Return it with an id made of its key, if it has one that stands for one run for ever and no id."""
        lasts = self.idempotency_window is None and self.debounce is None
        if self.run_id is not None or self.idempotency_key is None or not lasts:
            return self
        return replace(self, run_id=run_id_of_key(namespace, valid_run_id(self.idempotency_key, "idempotency key")))


def reuse_of(start: Start) -> Reuse | None:
    """Return how long the idempotency key of a new run stands for one that is there; None: for ever.

    Raises:
        DefinitionError: that is given without a key, or in two ways, or is wrong.
    """
    window, quiet, most = start.idempotency_window, start.debounce, start.debounce_limit
    if window is None and quiet is None and most is None:
        return None
    if start.idempotency_key is None:
        raise DefinitionError(
            "idempotency_window and debounce are about a key",
            advice="give an idempotency_key: what is it that repeats?",
        )
    if quiet is None and most is not None:
        raise DefinitionError("debounce_limit is a limit of debounce", advice="give both, or none")
    if window is not None and quiet is not None:
        raise DefinitionError(
            "idempotency_window and debounce exclude each other",
            advice="a debounced key stands for a run until that begins",
        )
    if quiet is not None:
        if start.delay is not None:
            raise DefinitionError("a debounced run is delayed by debounce", advice="give no delay besides")
        micros(quiet, what="debounce", allow_zero=False)
        return Reuse(debounce=FOREVER if most is None else micros(most, what="debounce_limit", allow_zero=False))
    if window == "ended":
        return Reuse(ended=True)
    assert window is not None
    return Reuse(age=micros(window, what="idempotency_window", allow_zero=False))


def check_distinct(runs: Sequence[NewRun]) -> None:
    """Refuse runs of one id that differ.

    Raises:
        DefinitionError: two do.
    """
    seen: dict[str, bytes] = {}
    for run in runs:
        if seen.setdefault(run.run_id, run.payload) != run.payload:
            raise DefinitionError(
                f"run id {run.run_id!r} is given twice, with different inputs", advice="give every run its own id"
            )
