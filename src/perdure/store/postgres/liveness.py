"""Which workers are dead: by their session locks where those can be trusted, else by their leases.

=========== ======= ============================================================================
lock        lease   the worker is
=========== ======= ============================================================================
free        any     dead, once that was seen for a moment in which it could have locked again
held        live    alive
held        ended   frozen: dead once the same beat was seen for a grace of the observer's own running
unknowable  live    alive
unknowable  ended   dead
=========== ======= ============================================================================

A free lock says nothing if all sessions may have ended together: after a start of the server later than the worker's
session, shortly after any start, or while the observer's own session is new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from perdure.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

FREE_FOR: Final = 500_000
"""µs for which a lock must be seen free: a living worker whose session has ended locks again in a fraction of it."""
SETTLED: Final = 2_000_000
"""µs that a server and an observer's session must have lasted for a free lock to mean anything."""
_CREDIT: Final = 200_000
"""µs of seeing that one look is worth at most: who was stopped in between has seen nothing."""


class Sight(NamedTuple):
    """What one look shows of a worker."""

    worker_key: int
    server: str
    """Which start of the server the session is of that has its lock; empty: it has none."""
    session: str
    locked: bool
    beat: int
    ended: bool
    """Whether its lease has ended."""
    stopped: bool
    up_for: int
    """For how long (µs) the server has been up."""
    up_since: str


class Watch:
    """What one observer has seen of the others."""

    def __init__(self, monotonic: Callable[[], float] | None = None) -> None:
        """Begin to look; ``monotonic`` is a clock of seconds, this machine's by default."""
        self._monotonic = monotonic or SystemClock().monotonic
        self._last = self._now()
        self._opened = -1
        self._since = 0
        self._same: dict[int, tuple[object, int]] = {}
        """By worker: what was seen of it, and for how long (µs) that has been so."""

    def dead(self, seen: list[Sight], *, opened: int | None, grace: int) -> list[int]:
        """Judge workers.

        Args:
            seen: what this look has shown.
            opened: which session of the observer's it was; None if they are not its own.
            grace: the observer's heartbeat in µs.
        """
        instant = self._now()
        passed, self._last = instant - self._last, instant
        if opened != self._opened:
            self._opened, self._since = -1 if opened is None else opened, instant
        settled = opened is not None and instant - self._since >= SETTLED
        dead: list[int] = []
        same: dict[int, tuple[object, int]] = {}
        for worker in seen:
            key = worker.worker_key
            match _state(worker):
                case "dead":
                    dead.append(key)
                case "frozen":
                    if self._unchanged(same, key, ("frozen", worker.beat), min(passed, grace // 2)) >= grace:
                        dead.append(key)
                case "free":
                    so_far = self._unchanged(same, key, ("free", worker.session), min(passed, _CREDIT))
                    if worker.ended or (so_far >= FREE_FOR and settled and worker.up_for >= SETTLED):
                        dead.append(key)
                case _:
                    pass
        self._same = same
        return dead

    def _now(self) -> int:
        return round(self._monotonic() * 1e6)

    def _unchanged(self, same: dict[int, tuple[object, int]], key: int, sign: object, credit: int) -> int:
        """For how long (µs) a worker has shown a sign."""
        before, so_far = self._same.get(key, (None, 0))
        so_far = so_far + credit if before == sign else 0
        same[key] = sign, so_far
        return so_far


def _state(worker: Sight) -> Literal["alive", "free", "frozen", "dead"]:
    """What one look says of a worker."""
    if worker.stopped:
        return "dead"
    if worker.session == "" or worker.server != worker.up_since:
        return "dead" if worker.ended else "alive"
    if worker.locked:
        return "frozen" if worker.ended else "alive"
    return "free"
