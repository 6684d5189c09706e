"""Which workers are dead: by the kernel's word where there is one, else by their leases.

=========== ======= ============================================================================
lock        lease   the worker is
=========== ======= ============================================================================
free        any     dead
held        live    alive
held        ended   frozen: dead once the same beat was seen for a grace of the observer's own running
unknowable  live    alive
unknowable  ended   dead
=========== ======= ============================================================================
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Literal

from perdure.clock import SystemClock
from perdure.model.standing import Sign
from perdure.store.sqlite.sidecar import Lock

if TYPE_CHECKING:
    from perdure.model.records import WorkerRow
    from perdure.store.sqlite.sidecar import Sidecar


_CLOCK = SystemClock()
_SAID: dict[Lock, Literal["held", "free", "unknowable"]] = {
    Lock.HELD: "held", Lock.FREE: "free", Lock.UNKNOWABLE: "unknowable",
}  # fmt: skip


@cache
def boot_id() -> str:
    """Return what names this boot of the machine: leases of another boot have ended."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:
        # The clock below counts from the boot, so its zero names it, give or take a clock adjustment.
        return f"{sys.platform}-{(_CLOCK.now() - boot_now()) // 60_000_000}"


def boot_now() -> int:
    """Return the time since boot in µs, sleep included: the clock of leases, which nobody can set."""
    return int(_CLOCK.monotonic() * 1e6)


def signs(workers: list[WorkerRow], sidecar: Sidecar | None, now: int) -> dict[int, Sign]:
    """What shows of each worker that it lives: its lock, and its lease by the clock that shows ``now``."""
    boot, ahead = boot_id(), now - boot_now()
    return {
        worker.worker_key: Sign(
            "unknowable"
            if sidecar is None
            else _SAID[sidecar.probe(worker.worker_key, worker.sidecar, worker.pid, worker.pid_started)],
            worker.lease_until + ahead if worker.boot == boot else None,
        )
        for worker in workers
    }


class Watch:
    """What one observer has seen of the others."""

    def __init__(self) -> None:
        self._last = boot_now()
        self._frozen: dict[int, tuple[int, int]] = {}
        """Frozen workers: their beat, and for how long (µs) this observer, itself running, has seen it unchanged."""

    def dead(self, workers: list[WorkerRow], sidecar: Sidecar, *, grace: int) -> list[int]:
        """Judge ``workers``; ``grace`` in µs."""
        found: list[int] = []
        frozen: dict[int, tuple[int, int]] = {}
        instant = boot_now()
        # An observer that was itself stopped saw nothing meanwhile: one look is credited with half a grace at most.
        seen = min(instant - self._last, grace // 2)
        self._last = instant
        boot = boot_id()
        for worker in workers:
            key = worker.worker_key
            if worker.boot != boot:
                found.append(key)
                continue
            lock = sidecar.probe(key, worker.sidecar, worker.pid, worker.pid_started)
            ended = worker.lease_until <= instant
            if lock is Lock.FREE or (lock is Lock.UNKNOWABLE and ended):
                found.append(key)
            elif lock is Lock.HELD and ended:
                beat, so_far = self._frozen.get(key, (None, 0))
                so_far = so_far + seen if beat == worker.beat else 0
                frozen[key] = worker.beat, so_far
                if so_far >= grace:
                    found.append(key)
        self._frozen = frozen
        return found
