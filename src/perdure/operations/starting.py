"""What a run that is to be created is given, and what is checked of it before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from perdure.errors import DefinitionError
from perdure.model import ids
from perdure.model.durations import FOREVER, instant, micros, to_datetime

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def deadline_at(given: Duration | datetime | None, default: int | None, begins: int) -> int | None:
    """Return when a run is cancelled if it has not ended (µs); None: never.

    Args:
        given: how long it may take from when it may begin, or an instant; None: as its workflow says.
        default: what its workflow says (µs).
        begins: when it may begin (µs).

    Raises:
        DefinitionError: that is no duration and no aware datetime, or leaves the run no time.
    """
    if given is None:
        return None if default is None else min(begins + default, FOREVER)
    if not isinstance(given, datetime):
        return min(begins + micros(given, what="deadline", allow_zero=False), FOREVER)
    at = instant(given, what="deadline")
    if at <= begins:
        raise DefinitionError(
            f"deadline {given.isoformat()} leaves the run no time: it may begin at {to_datetime(begins).isoformat()}",
            advice="give a later one, or a duration, which counts from when the run may begin",
            value=given,
        )
    return at


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


def tags_of(given: object) -> dict[str, str]:
    """Return a run's tags, or those that runs are looked for by.

    Raises:
        DefinitionError: they are no texts by name, or texts that no store and no command line bears.
    """
    tags: dict[str, str] = {}
    for name, value in given.items() if isinstance(given, Mapping) else [(None, given)]:
        if not isinstance(name, str) or not isinstance(value, str):
            raise DefinitionError(f"tags are texts by name, not {given!r}", advice='write tags={"customer": "42"}')
        if "=" in name:
            raise DefinitionError(f"a tag's name has no = in it: {name!r}", advice="name and value are given apart")
        tags[ids.valid_run_id(name, "tag name")] = ids.valid_run_id(value, f"value of tag {name!r}")
    return tags
