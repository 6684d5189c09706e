"""What a run that is to be created is given, and what is checked of it before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from perdure.model.durations import Duration
    from perdure.model.records import NewRun


@dataclass(frozen=True, slots=True)
class Start:
    """Options of a run that is to be created."""

    run_id: str | None = None
    idempotency_key: str | None = None
    delay: Duration | None = None
    priority: int = 0
    tags: Mapping[str, str] | None = None
    deadline: Duration | datetime | None = None


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
