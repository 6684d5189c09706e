"""The table of findings: one truth for what is printed and for the reference page."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Kind(NamedTuple):
    """A kind of finding.

    Attributes:
        severity: how bad it is as a rule.
        meaning: what it means, a sentence.
        advice: what to do, with names in braces; empty: nothing.
    """

    severity: Literal["ok", "note", "warn", "bad"]
    meaning: str
    advice: str = ""


RUNS: dict[str, Kind] = {
    "delayed": Kind(
        "ok",
        "The run was created to start later.",
    ),
    "sleeping": Kind(
        "ok",
        "The run waits for a timer. It holds no worker meanwhile.",
    ),
    "retrying": Kind(
        "note",
        "A step has failed, and its next attempt is due at the time given.",
        "if it cannot get better: perdure cancel {run}",
    ),
    "waits-signal": Kind(
        "note",
        "The run waits for a signal that nobody has sent.",
        "perdure signal {run} {signal}",
    ),
    "waits-child": Kind(
        "ok",
        "The run waits for a child run to end; what that waits for follows.",
    ),
    "waits-news": Kind(
        "ok",
        "The run waits for something that its log does not name.",
    ),
    "signal-unasked": Kind(
        "note",
        "Signals lie in the run's inbox under a name that it does not wait for now; they are kept.",
        "if the name was a slip, send it again under the right one",
    ),
    "running": Kind(
        "ok",
        "A living worker executes the run.",
    ),
    "step-running": Kind(
        "ok",
        "A step is being executed, in the attempt given.",
    ),
    "cancel-asked": Kind(
        "note",
        "A cancel was asked for, and the run's code has not taken it in: it is told at its next step or wait.",
        "what does not heed it: perdure cancel {run} --force, once nobody executes it",
    ),
    "pause-asked": Kind(
        "ok",
        "A pause was asked for: the run rests when the steps under way have ended.",
    ),
    "holder-gone": Kind(
        "warn",
        "The process that executed the run is gone. The next worker with its code takes the run over.",
        "perdure worker MODULE, if none is running",
    ),
    "holder-frozen": Kind(
        "warn",
        "The process that executes the run is there, but has not renewed its lease: it is stopped, starved or cut"
        " off from the store. Another worker takes the run over.",
        "look at process {pid} on {host}",
    ),
    "woken": Kind(
        "ok",
        "What the run has waited for has come, and it is there to be claimed.",
    ),
    "no-worker": Kind(
        "warn",
        "No worker is running on this store.",
        "perdure worker MODULE",
    ),
    "no-code": Kind(
        "warn",
        "Workers are running, and none of them has the code for the run: its workflow, version and queue. It is "
        "left alone until one has.",
        "start a worker with {workflow}, version {version}, from queue {queue}; or perdure cancel {run}",
    ),
    "refused-by-all": Kind(
        "warn",
        "All builds that are running have refused the run, since their code does not fit its log. It is blocked "
        "shortly, unless another build comes.",
        "perdure replay {run} shows where it departs; run a build that fits, or perdure resume {run} --accept-drift",
    ),
    "refused-by-some": Kind(
        "note",
        "A build has refused the run, since its code does not fit the log. It is left to workers of other builds.",
        "perdure replay {run} shows where it departs",
    ),
    "queue-paused": Kind(
        "warn",
        "The queue is paused: nothing is claimed from it.",
        "perdure queues resume {queue}",
    ),
    "queue-full": Kind(
        "note",
        "As many runs of the queue are under way as it allows.",
        "raise its concurrency if it is often so",
    ),
    "queue-workers-full": Kind(
        "note",
        "Every worker has as many runs of the queue under way as one may have.",
        "run more workers, or raise worker_concurrency",
    ),
    "queue-rate": Kind(
        "note",
        "As many runs of the queue have begun as its rate allows.",
    ),
    "partition-full": Kind(
        "note",
        "As many runs of the queue with this partition key are under way as it allows.",
        "raise partition_concurrency if it is often so",
    ),
    "newer-format": Kind(
        "warn",
        "The run was written by a newer Perdure, and older workers leave it alone.",
        "upgrade Perdure on workers",
    ),
    "suspect": Kind(
        "warn",
        "The workers of the run died twice or more in a row without progress. A worker takes one such run at a "
        "time, and it is blocked after a few more crashes.",
        "look for what kills its workers: perdure show {run}",
    ),
    "in-line": Kind(
        "note",
        "The run is there to be claimed, workers with its code are running, and none has had a slot for it yet.",
        "if it lasts: more workers, or a higher concurrency",
    ),
    "deadline-passed": Kind(
        "warn",
        "The run's deadline has passed, and nobody has cancelled it yet; a worker does so.",
        "perdure worker MODULE",
    ),
    "paused": Kind(
        "note",
        "The run was paused, and rests until somebody lets it go on.",
        "perdure resume {run}",
    ),
    "blocked": Kind(
        "bad",
        "The run cannot go on without a person.",
        "mend the cause, then: perdure resume {run}",
    ),
    "blocked-drift": Kind(
        "bad",
        "The code does not fit the run's log: it was changed while the run was in flight.",
        "perdure replay {run} shows where it departs; bring the code back or use perdure.patched, then: perdure "
        "resume {run}; or perdure resume {run} --accept-drift",
    ),
    "blocked-undecodable": Kind(
        "bad",
        "What is recorded does not decode under today's types.",
        "let the type accept it, or give upcast=, then: perdure resume {run}",
    ),
    "blocked-integrity": Kind(
        "bad",
        "The run's log is not what was written: it was changed outside Perdure, or damaged.",
        "perdure verify {run} names the place; restore the database from a backup, or: perdure cancel {run}",
    ),
    "blocked-crashes": Kind(
        "bad",
        "The run's workers died several times in a row without progress, so it was set aside.",
        "find what kills them (memory, a native crash), then: perdure resume {run}",
    ),
    "blocked-undo": Kind(
        "bad",
        "A compensation has failed, so part of what the run did is not undone.",
        "mend the cause, then: perdure resume {run}, which tries that compensation again, then the rest",
    ),
    "failed": Kind(
        "bad",
        "The run has failed.",
        "perdure resume {run} tries again what failed",
    ),
    "failed-undone": Kind(
        "bad",
        "The run has failed and undone what it had done, so it cannot be resumed.",
        "perdure fork {run} STEP, from a step before that; or run it anew",
    ),
    "cancelled": Kind(
        "note",
        "The run was cancelled.",
        "perdure resume {run} lets it go on",
    ),
    "cancelled-undone": Kind(
        "note",
        "The run was cancelled and has undone what it had done, so it cannot be resumed.",
        "perdure fork {run} STEP, from a step before that; or run it anew",
    ),
    "completed": Kind(
        "ok",
        "The run has completed.",
    ),
    "log-unreadable": Kind(
        "bad",
        "The run's log cannot be understood to its end: it is damaged, or was written by a newer Perdure.",
        "perdure verify {run} names the place",
    ),
    "too-deep": Kind(
        "note",
        "There is more behind this, and it is not followed further.",
        "perdure why {run}",
    ),
}
"""What ``perdure why`` says of a run."""

STORES: dict[str, Kind] = {}
"""What ``perdure doctor`` says of a store, and of all that is in it."""

KINDS: dict[str, Kind] = {**RUNS, **STORES}

__all__ = ["KINDS", "RUNS", "STORES", "Kind"]
