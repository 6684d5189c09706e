"""What whoever starts a run says of it, checked: its deadline and its tags."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from perdure.errors import DefinitionError
from perdure.model import ids
from perdure.model.durations import FOREVER, instant, micros, to_datetime

if TYPE_CHECKING:
    from perdure.model.durations import Duration


MOST_PRIORITY = 1000


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


def valid_priority(given: object) -> int:
    """Return a run's priority.

    Raises:
        DefinitionError: it is no whole number from -1000 to 1000.
    """
    if isinstance(given, bool) or not isinstance(given, int) or abs(given) > MOST_PRIORITY:
        raise DefinitionError(f"a priority is a whole number from -1000 to 1000, not {given!r}")
    return given


def valid_tags(given: object) -> dict[str, str]:
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


__all__ = ["deadline_at", "valid_priority", "valid_tags"]
