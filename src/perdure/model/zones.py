"""Zones of the world: from wall times to instants and back, and where a zone's offset changes.

Wall times are naive ``datetime``s, instants are microseconds since the epoch, UTC, offsets are microseconds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from perdure.errors import DefinitionError
from perdure.model.durations import FOREVER

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - wall times are naive
_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND
_STRIDE: Final = _DAY // 2
"""No zone changes its offset twice within this long."""

FIRST: Final = (datetime(1, 1, 3) - _EPOCH) // _MICROSECOND  # noqa: DTZ001
LAST: Final = FOREVER - 3 * _DAY
"""Between these, every instant has a wall time in every zone."""


def wall_time(wall: int) -> datetime:
    """Return what a clock on the wall shows, given as µs since it showed the beginning of 1970."""
    return _EPOCH + timedelta(microseconds=wall)


def wall_micros(wall: datetime) -> int:
    """Return what a clock on the wall shows as µs since it showed the beginning of 1970."""
    return (wall - _EPOCH) // _MICROSECOND


class Zone:
    """An IANA time zone.

    Attributes:
        name: what it is called: ``Europe/Berlin``.
    """

    __slots__ = ("_info", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._info = ZoneInfo(name)

    def offset(self, at: int) -> int:
        """Return how far the zone's walls are ahead of UTC at an instant."""
        utc = (_EPOCH + timedelta(microseconds=at)).replace(tzinfo=UTC)
        offset = utc.astimezone(self._info).utcoffset()
        assert offset is not None
        return offset // _MICROSECOND

    def instant(self, wall: int) -> int:
        """Return the instant of a wall time: of two the first; of one that is left out, the first one after the gap."""
        aware = wall_time(wall).replace(tzinfo=self._info)
        before = aware.utcoffset()
        assert before is not None
        at = wall - before // _MICROSECOND
        now = self.offset(at)
        if at + now == wall:
            return at
        # In a gap `at` counts by the offset before it, so that it lies behind the change, by less than the gap.
        changed = self.change(at - (at + now - wall) - 1, at)
        return at if changed is None else changed

    def change(self, after: int, until: int) -> int | None:
        """Return the first instant in ``(after, until]`` whose offset differs from that at ``after``."""
        offset = self.offset(after)
        low = after
        while low < until:
            high = min(low + _STRIDE, until)
            if self.offset(high) != offset:
                return self._bisect(low, high, offset)
            low = high
        return None

    def last_change(self, after: int, until: int) -> int | None:
        """Return since when the offset has been what it is at ``until``; None if it was so at ``after`` already."""
        offset = self.offset(until)
        high = until
        while high > after:
            low = max(high - _STRIDE, after)
            before = self.offset(low)
            if before != offset:
                return self._bisect(low, high, before)
            high = low
        return None

    def _bisect(self, low: int, high: int, offset: int) -> int:
        """The first instant whose offset is not ``offset``, as it is at ``low`` and is not at ``high``."""
        while high - low > 1:
            middle = (low + high) // 2
            if self.offset(middle) == offset:
                low = middle
            else:
                high = middle
        return high


@lru_cache(maxsize=256)
def zone(name: str) -> Zone:
    """Return a zone by its IANA name.

    Raises:
        DefinitionError: there is none of this name.
    """
    try:
        return Zone(name)
    except (LookupError, ValueError, OSError) as error:
        raise DefinitionError(
            f"there is no time zone {name!r:.80}",
            advice='write an IANA name such as "UTC" or "Europe/Berlin"; where the system has none, install tzdata',
            zone=name,
        ) from error


__all__ = ["FIRST", "LAST", "Zone", "wall_micros", "wall_time", "zone"]
