"""Every metric that Perdure keeps, and the numbers of one engine: plain counting, which no library is needed for.

The engine's loop writes and a scrape reads, on another thread, without a lock: a scrape may see a step counted whose
time is not yet added, and nothing worse.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, Literal, NamedTuple, TypeAlias

Form: TypeAlias = Literal["counter", "gauge", "histogram"]

MOST: Final = 1000
"""Series of one metric; what would be more is counted as one, under labels that say ``OTHER``."""
OTHER: Final = "(other)"

TIMES: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper bounds of the buckets of times, s: from a step in memory to one that waits for a person's machine."""
SIZES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)
"""Upper bounds of the buckets of numbers of events."""


class Metric(NamedTuple):
    """A metric.

    Attributes:
        name: as it is exposed, with unit and ``_total``.
        form: counter, gauge or histogram.
        labels: the names of its labels; never the id of a run.
        meaning: what it counts or measures.
        buckets: of a histogram, the upper bounds.
    """

    name: str
    form: Form
    labels: tuple[str, ...]
    meaning: str
    buckets: tuple[float, ...] = ()


METRICS: Final[dict[str, Metric]] = {}
"""All metrics, by name."""


def _metric(name: str, form: Form, labels: str, meaning: str, buckets: tuple[float, ...] = ()) -> Metric:
    made = Metric(f"perdure_{name}", form, tuple(labels.split()), meaning, buckets)
    METRICS[made.name] = made
    return made


# -- counted by the engine

CLAIMED = _metric(
    "runs_claimed_total", "counter", "workflow queue", "claims: how often this engine began a run or went on with one"
)
STARTED = _metric("runs_started_total", "counter", "workflow queue", "runs that were claimed for the first time")
SUSPENDED = _metric(
    "runs_suspended_total", "counter", "workflow queue", "runs that went to sleep, or to wait, and left memory"
)
ENDED = _metric(
    "runs_ended_total", "counter", "workflow queue outcome",
    "runs that this engine brought to an end; outcome: completed, failed, cancelled, continued",
)  # fmt: skip
BLOCKED = _metric(
    "runs_blocked_total", "counter", "workflow queue", "runs that this engine blocked: they need a person"
)
DRIFT = _metric("drift_found_total", "counter", "workflow queue", "runs whose log and code were found not to agree")
CLAIM_WAIT = _metric(
    "claim_wait_seconds", "histogram", "queue", "from when a run could begin to its first claim", TIMES
)
CLAIM_TIME = _metric("claim_seconds", "histogram", "", "how long the store took to answer a claim", TIMES)
ATTEMPTS = _metric(
    "step_attempts_total", "counter", "workflow step outcome",
    "attempts that have ended; outcome: completed, retried (failed, and tried again), failed, cancelled",
)  # fmt: skip
STEP_TIME = _metric("step_seconds", "histogram", "workflow step", "how long attempts took, however they ended", TIMES)
COMMIT_TIME = _metric(
    "commit_seconds", "histogram", "", "how long a commit of the journal took, its fsync included", TIMES
)
COMMIT_EVENTS = _metric("commit_events", "histogram", "", "events in one commit of the journal", SIZES)
HEARTBEATS = _metric("heartbeats_total", "counter", "", "renewals of this worker's lease")
HEARTBEATS_LATE = _metric("heartbeats_late_total", "counter", "", "renewals that came after the lease had ended")
LEASES_LOST = _metric("leases_lost_total", "counter", "", "how often other workers took this one for dead")
RECLAIMED = _metric("runs_reclaimed_total", "counter", "", "runs that this worker took back from dead ones")
RECLAIM_BLOCKED = _metric(
    "runs_reclaim_blocked_total", "counter", "", "runs that were blocked instead: their workers died too often"
)

# -- read at a scrape

SLOTS = _metric("slots", "gauge", "", "runs that this engine may execute at once")
SLOTS_USED = _metric("slots_in_use", "gauge", "", "runs that it executes")
STORE_UP = _metric("store_up", "gauge", "", "1 if what is in the store could be read, else 0 (and no gauges of it)")
STORE_AGE = _metric("store_read_age_seconds", "gauge", "", "how old the gauges of the store are")
RUNS = _metric(
    "runs", "gauge", "status", "runs in the whole store, counted up to 10000 of each status; the same from every engine"
)
READY = _metric(
    "queue_ready", "gauge", "queue",
    "runs of the engine's namespace that could be claimed now, counted up to 10000 for each workflow and version",
)  # fmt: skip
OLDEST = _metric(
    "queue_oldest_seconds",
    "gauge",
    "queue",
    "how long the run that waits for longest could have been claimed; 0 if none",
)
LOG_SIZE = _metric("sqlite_wal_bytes", "gauge", "", "size of SQLite's write-ahead log")
RECONNECTS = _metric("store_reconnects_total", "counter", "", "connections to the store that had to be opened again")


class Times:
    """The series of a histogram."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Numbers:
    """What one engine has counted since it was made."""

    def __init__(self) -> None:
        self.counts: dict[str, dict[tuple[str, ...], int]] = {
            name: {} for name, metric in METRICS.items() if metric.form == "counter"
        }
        self.times: dict[str, dict[tuple[str, ...], Times]] = {
            name: {} for name, metric in METRICS.items() if metric.form == "histogram"
        }
        for metric in METRICS.values():  # what has no labels is 0 from the start, and not missing
            if not metric.labels and metric.form == "counter":
                self.count(metric, (), 0)

    def count(self, metric: Metric, labels: tuple[str, ...] = (), by: int = 1) -> None:
        """Add to a counter."""
        series = self.counts[metric.name]
        before = series.get(labels)
        if before is None and len(series) >= MOST:
            labels = (OTHER,) * len(labels)
            before = series.get(labels)
        series[labels] = (before or 0) + by

    def observe(self, metric: Metric, value: float, labels: tuple[str, ...] = ()) -> None:
        """Add a value to a histogram."""
        series = self.times[metric.name]
        times = series.get(labels)
        if times is None:
            if len(series) >= MOST:
                labels = (OTHER,) * len(labels)
            times = series.setdefault(labels, Times(metric.buckets))
        times.add(value)
