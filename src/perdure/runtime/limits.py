"""What a worker is limited to, and by which times it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.runtime.host import OnDrift

CACHED = 5000
"""Suspended runs kept in memory; one in a sleep takes about 6 KiB."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How a worker works. Durations in seconds."""

    concurrency: int = 100
    lease: float = 30.0
    heartbeat: float = 10.0
    threads: int = 32
    crash_cap: int = 5
    on_drift: OnDrift = "block"
    suspended: int = CACHED


__all__ = ["CACHED", "Limits"]
