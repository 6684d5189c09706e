"""Every line that Perdure logs."""

from __future__ import annotations

from logging import CRITICAL, DEBUG, ERROR, INFO, WARNING
from typing import Final

from perdure.telemetry.logs import Line

LINES: Final[dict[str, Line]] = {}
"""All lines, by name."""


def _line(name: str, level: int, logger: str, text: str, meaning: str) -> Line:
    made = Line(name, level, f"perdure.{logger}", text, meaning)
    assert name not in LINES, name
    LINES[name] = made
    return made


# -- runs

RUN_CLAIMED = _line(
    "run.claimed",
    DEBUG,
    "run",
    "run %(run_id)s of %(workflow)s is executed here",
    "a worker begins or goes on with a run",
)
RUN_SUSPENDED = _line(
    "run.suspended", DEBUG, "run", "run %(run_id)s is %(status)s", "a run waits for long and has left memory"
)
RUN_PAUSED = _line("run.paused", INFO, "run", "run %(run_id)s is paused", "somebody has paused it, and it has let go")
RUN_COMPLETED = _line(
    "run.completed", INFO, "run", "run %(run_id)s of %(workflow)s has completed", "a run has its result"
)
RUN_CONTINUED = _line(
    "run.continued", INFO, "run", "run %(run_id)s of %(workflow)s goes on as a new run", "continue_as_new()"
)
RUN_FAILED = _line(
    "run.failed", INFO, "run", "run %(run_id)s of %(workflow)s has failed: %(error_type)s",
    "its code has raised; `perdure show RUN` shows what, `perdure why RUN` what to do",
)  # fmt: skip
RUN_CANCELLED = _line(
    "run.cancelled",
    INFO,
    "run",
    "run %(run_id)s of %(workflow)s was cancelled",
    "somebody asked for it, or its deadline",
)
RUN_BLOCKED = _line(
    "run.blocked", WARNING, "run", "run %(run_id)s of %(workflow)s is blocked: %(code)s",
    "it cannot go on without a person: `perdure why RUN`",
)  # fmt: skip
RUN_LET_GO = _line(
    "run.let_go", ERROR, "worker", "run %(run_id)s is let go, it goes on later from what is on disk: %(error)s",
    "its execution here has ended in a fault, of the store or of Perdure; it is tried again",
)  # fmt: skip
RUN_LEFT_TO_OTHERS = _line(
    "run.left_to_others", WARNING, "worker", "run %(run_id)s does not fit this build, and is left to others: %(error)s",
    "its log and this build's code do not agree; another build goes on with it",
)  # fmt: skip
RUN_KEPT = _line(
    "run.kept", WARNING, "worker", "run %(run_id)s keeps its claim: %(what)s ignores the request to stop",
    "a step does not heed its cancellation; its run goes on elsewhere once this process is gone",
)  # fmt: skip
RUN_NOT_RELEASED = _line(
    "run.not_released", WARNING, "worker",
    "run %(run_id)s could not be released, trying again in %(pause)g s: %(error)s",
    "the store did not take it; tried until it does",
)  # fmt: skip
RUN_NOT_REFUSED = _line(
    "run.not_refused", WARNING, "worker", "run %(run_id)s could not be refused, trying again in %(pause)g s: %(error)s",
    "likewise, for a run that does not fit this build",
)  # fmt: skip
CHILD_NOT_RESUMED = _line(
    "run.child_not_resumed", WARNING, "worker",
    "run %(run_id)s: its child %(child)s could not be resumed, trying again: %(error)s",
    "likewise, for a failed child that its resumed parent waits for",
)  # fmt: skip
RUN_FAULT = _line(
    "run.fault", CRITICAL, "run", "run %(run_id)s: internal error", "a fault of Perdure's: please report the traceback"
)
DRIFT_PASSED = _line(
    "run.drift_passed", WARNING, "run", "%(error)s; it goes on all the same (on_drift='warn')",
    "the code calls a step otherwise than is recorded, and the engine was told not to block the run",
)  # fmt: skip
DRIFT_FOUND = _line(
    "run.drift_found", WARNING, "run", "run %(run_id)s of %(workflow)s does not fit its code: %(key)s",
    "the code was changed under it: `perdure why RUN` shows what was recorded and what was found",
)  # fmt: skip
TASK_UNHEARD = _line(
    "run.task_unheard", WARNING, "run", "run %(run_id)s: %(task)s has failed, and the workflow never looked: %(error)s",
    "a task of the workflow's has raised, and nothing awaits it",
)  # fmt: skip
LOOP_ERROR = _line(
    "run.loop_error", ERROR, "run", "run %(run_id)s: a callback of its loop has failed: %(what)s",
    "a callback of the workflow's has raised, or a failure was never retrieved",
)  # fmt: skip
SIGNAL_REFUSED = _line(
    "run.signal_refused", WARNING, "run", "run %(run_id)s: a signal %(signal)r is refused: %(error)s",
    "the message does not decode as the signal's type; the run goes on waiting",
)  # fmt: skip

# -- steps

STEP_COMPLETED = _line(
    "step.completed", DEBUG, "step", "run %(run_id)s: %(key)s has completed in %(took).3f s", "an attempt has returned"
)
STEP_RETRIED = _line(
    "step.retried", INFO, "step",
    "run %(run_id)s: %(key)s has failed in attempt %(attempt)d, and is tried again: %(error_type)s",
    "an attempt has raised, and its retry policy allows another one",
)  # fmt: skip
STEP_FAILED = _line(
    "step.failed", INFO, "step", "run %(run_id)s: %(key)s has failed in attempt %(attempt)d: %(error_type)s",
    "an attempt has raised, and there is no other; the workflow's code may catch that",
)  # fmt: skip
STEP_CANCELLED = _line(
    "step.cancelled", DEBUG, "step", "run %(run_id)s: %(key)s was cancelled", "a step has ended as cancelled"
)
STEP_OUTCOME_UNKNOWN = _line(
    "step.outcome_unknown", WARNING, "step",
    "run %(run_id)s: whether %(key)s is committed cannot be found out: %(reason)s",
    "the database of a transactional step was lost at its commit; the step fails with OutcomeUnknown",
)  # fmt: skip
PROGRESS_UNREADABLE = _line(
    "step.progress_unreadable", WARNING, "step",
    "run %(run_id)s: what %(key)s recorded last of its progress cannot be read: %(error)s",
    "today's code has no type for it; the attempt begins without",
)  # fmt: skip

# -- workers

WORKER_STARTED = _line("worker.started", INFO, "worker", "worker %(worker)s has started", "it claims runs from now on")
WORKER_STOPPED = _line(
    "worker.stopped", INFO, "worker", "worker %(worker)s has stopped", "it executes nothing any more"
)
RUNS_RECLAIMED = _line(
    "worker.reclaimed", WARNING, "worker", "runs taken back from workers that died: %(runs)d",
    "a process died, or was cut off from the store for longer than its lease",
)  # fmt: skip
NOT_RECLAIMED = _line(
    "worker.not_reclaimed", WARNING, "worker", "runs of dead workers could not be taken back: %(error)s",
    "the store did not take it; tried again at the next look",
)  # fmt: skip
DEAD_UNKNOWN = _line(
    "worker.dead_unknown", INFO, "worker", "dead workers cannot be looked for, trying again: %(error)s",
    "the store does not answer",
)  # fmt: skip
DEAD_FAULT = _line(
    "worker.dead_fault", CRITICAL, "worker", "dead workers could not be looked for", "a fault of Perdure's"
)
LEASE_LATE = _line(
    "worker.lease_late", WARNING, "worker",
    "the lease was renewed after it had ended; checking which runs are still held",
    "the process was frozen or the store slow for longer than the lease",
)  # fmt: skip
LEASE_LOST = _line(
    "worker.lease_lost", WARNING, "worker", "this worker was taken for dead; its %(runs)d runs went to others",
    "likewise, and another worker has taken over; this one goes on as a new worker",
)  # fmt: skip
NOT_RENEWED = _line(
    "worker.not_renewed", WARNING, "worker", "heartbeat: the lease could not be renewed, trying again: %(error)s",
    "the store does not take the heartbeat; runs are lost if that lasts for as long as the lease",
)  # fmt: skip
HEARTBEAT_FAULT = _line(
    "worker.heartbeat_fault", CRITICAL, "worker", "heartbeat: the lease could not be renewed, trying again",
    "a fault of Perdure's",
)  # fmt: skip
LOOP_BLOCKED = _line(
    "worker.loop_blocked", WARNING, "worker",
    "the event loop has not turned for %(late).1f s: something blocks it (the lease is kept meanwhile). "
    "Make the step a plain def, so that it runs on a thread, or await.\n%(stack)s",
    "async code blocks; the stack says where",
)  # fmt: skip
NOT_REGISTERED = _line(
    "worker.not_registered", WARNING, "worker", "the worker could not register: %(error)s", "tried again every second"
)
NOT_LEAVING = _line(
    "worker.not_leaving", WARNING, "worker",
    "the store could not be told that this worker is about to stop: %(error)s", "it stops all the same",
)  # fmt: skip
NOT_RETIRED = _line(
    "worker.not_retired", WARNING, "worker", "the worker could not retire: %(error)s",
    "others find it dead a moment later",
)  # fmt: skip
NOT_CLAIMED = _line(
    "worker.not_claimed", WARNING, "worker", "nothing could be claimed, trying again in %(pause)g s: %(error)s",
    "the store does not answer",
)  # fmt: skip
CLAIM_FAULT = _line(
    "worker.claim_fault", CRITICAL, "worker", "claiming failed, trying again in %(pause)g s", "a fault of Perdure's"
)
OVERDUE_UNKNOWN = _line(
    "worker.overdue_unknown", WARNING, "worker", "runs past their deadlines could not be looked for: %(error)s",
    "the store does not answer; looked for again",
)  # fmt: skip
STRANDED_UNKNOWN = _line(
    "worker.stranded_unknown", WARNING, "worker", "runs that no build is left for could not be looked for: %(error)s",
    "likewise",
)  # fmt: skip
PURGED = _line("worker.purged", INFO, "worker", "runs purged: %(runs)d", "retention has purged runs")
NOT_PURGED = _line(
    "worker.not_purged", WARNING, "worker", "old runs could not be purged, trying again in %(pause)g s: %(error)s",
    "the store does not take it",
)  # fmt: skip
PURGE_FAULT = _line(
    "worker.purge_fault", CRITICAL, "worker", "old runs could not be purged, trying again in %(pause)g s",
    "a fault of Perdure's",
)  # fmt: skip
PURGE_KEPT = _line(
    "worker.purge_kept", INFO, "worker", "another worker purges old runs only in %(pause)g s: %(error)s",
    "this one could not hand the chore on when it stopped",
)  # fmt: skip
ANSWER_TOO_LATE = _line(
    "worker.answer_too_late", DEBUG, "threads", "an answer came after its loop had closed", "nobody waits for it"
)

# -- engines

ASKED_TO_STOP = _line(
    "engine.asked_to_stop", WARNING, "engine", "asked to stop: draining; a second signal stops at once",
    "serve() got SIGTERM or SIGINT",
)  # fmt: skip
STORE_GONE = _line(
    "store.gone", CRITICAL, "engine", "%(error)s", "the store was removed or replaced: nothing is executed any more"
)
STORE_UNREADABLE = _line(
    "store.unreadable", WARNING, "store", "the store cannot be read, looking again every %(pause)s s: %(error)s",
    "said once, until it can be read again",
)  # fmt: skip
STORE_UNWRITABLE = _line(
    "store.unwritable", WARNING, "journal", "the store cannot be written, trying again in %(pause).2f s: %(error)s",
    "tried for as long as the lease holds; runs wait meanwhile",
)  # fmt: skip
STORE_FAILED = _line(
    "store.failed", CRITICAL, "journal", "the store failed: %(error)s",
    "it is damaged, or unsafe to go on with: `perdure doctor`",
)  # fmt: skip
LOCKS_NOT_HELD = _line(
    "store.locks_not_held", INFO, "store", "locks of workers cannot be held, trying again: %(error)s",
    "PostgreSQL is away; meanwhile leases alone count",
)  # fmt: skip
LOCKS_HELD_ANEW = _line(
    "store.locks_held_anew", INFO, "store", "locks of workers are held by a new session", "PostgreSQL is back"
)
LOCKS_FAULT = _line(
    "store.locks_fault", CRITICAL, "store", "locks of workers cannot be watched", "a fault of Perdure's"
)
HINTS_NOT_HEARD = _line(
    "store.hints_not_heard", INFO, "store", "hints are not heard: %(error)s",
    "PostgreSQL's notifications do not come; the store is polled",
)  # fmt: skip

# -- schedules

SCHEDULES_NOT_FIRED = _line(
    "schedule.not_fired", WARNING, "scheduler", "schedules could not be fired, trying again in %(pause)g s: %(error)s",
    "the store does not answer",
)  # fmt: skip
SCHEDULES_FAULT = _line(
    "schedule.fault", CRITICAL, "scheduler", "schedules could not be fired, trying again in %(pause)g s",
    "a fault of Perdure's",
)  # fmt: skip
SCHEDULE_FAULTY = _line(
    "schedule.faulty", ERROR, "scheduler",
    "schedule %(schedule)s could not be fired, trying again in %(pause)g s: %(reason)s",
    "one schedule is wrong in itself; the others are fired",
)  # fmt: skip
SCHEDULE_OLDER = _line(
    "schedule.older", WARNING, "schedules",
    "schedule %(schedule)s is left as it is: it was defined by a newer build, or in revision %(revision)d",
    "an old process defines it otherwise",
)  # fmt: skip

# -- hooks, outboxes, transactional steps

HOOK_FAILED = _line(
    "hooks.failed", ERROR, "hooks", "%(hooks)s failed at %(notice)s: %(error)s", "a hook of yours has raised"
)
HOOK_SLOW = _line(
    "hooks.slow", WARNING, "hooks", "%(hooks)s is too slow: notices for it are dropped, and counted in its `dropped`",
    "its queue of notices is full; said once",
)  # fmt: skip
HOOK_CUT_OFF = _line(
    "hooks.cut_off", WARNING, "hooks", "%(hooks)s had not heard %(notices)d notices when the engine stopped",
    "it had no time left; they are counted in its `dropped`",
)  # fmt: skip
ENTRY_SET_ASIDE = _line(
    "outbox.set_aside", ERROR, "relaying", "%(source)s: entry %(entry)d, for run %(run_id)s, is set aside: %(error)s",
    "what your transaction asked for cannot be done; it stays in the outbox for you to look at",
)  # fmt: skip
SIGNAL_UNHEARD = _line(
    "outbox.signal_unheard", INFO, "relaying",
    "%(source)s: entry %(entry)d: run %(run_id)s has completed, with or without the signal",
    "it is not known whether the run heard it, and does not matter any more",
)  # fmt: skip
OUTBOX_AWAY = _line(
    "outbox.away", WARNING, "relaying", "%(source)s: its outbox is not to be had, trying again: %(reason)s",
    "your database does not answer; said once",
)  # fmt: skip
OUTBOX_BACK = _line("outbox.back", INFO, "relaying", "%(source)s: its outbox is relayed again", "it answers again")
SOURCE_NOT_TIDIED = _line(
    "source.not_tidied", WARNING, "transactional", "%(source)s: what is too old could not be deleted: %(error)s",
    "the step itself is committed; tried again later",
)  # fmt: skip
SOURCE_READY = _line(
    "source.ready",
    DEBUG,
    "transactional",
    "%(source)s: the tables are at version %(version)d",
    "they were made or are there",
)

# -- the dashboard

DASHBOARD_DONE = _line(
    "dashboard.done", INFO, "web", "run %(run_id)s: %(done)s, from the dashboard, by %(visitor)s",
    "somebody has cancelled, paused, resumed, forked or signalled it there",
)  # fmt: skip
DASHBOARD_CHANGED = _line(
    "dashboard.changed", INFO, "web", "%(what)s: %(done)s, from the dashboard, by %(visitor)s",
    "somebody has paused, resumed, triggered or removed a queue or a schedule there, or started a run",
)  # fmt: skip
DASHBOARD_MANY = _line(
    "dashboard.many", INFO, "web",
    "%(verb)s of many runs, from the dashboard, by %(visitor)s: %(number)d done, %(unchanged)d left as they were, "
    "%(failed)d failed",
    "somebody has done something there to all runs of a filter",
)  # fmt: skip
DASHBOARD_REFUSED = _line(
    "dashboard.login_refused", WARNING, "web", "a login to the dashboard is refused", "the token was wrong"
)
DASHBOARD_AWAY = _line(
    "dashboard.away", WARNING, "web", "the dashboard could not answer %(method)s %(place)s: %(error)s",
    "the store does not answer; it is asked again with the next request",
)  # fmt: skip
DASHBOARD_FAULT = _line(
    "dashboard.fault", ERROR, "web", "the dashboard could not answer %(method)s %(place)s",
    "a fault of Perdure's, or your `auth=` has raised",
)  # fmt: skip

# -- telemetry itself

SPANS_FAILED = _line(
    "traces.failed", WARNING, "traces", "a span could not be made: %(error)s",
    "your provider, sampler or processor has raised; said once, runs go on without",
)  # fmt: skip

SCRAPE_BLIND = _line(
    "metrics.store_unread", WARNING, "metrics", "what is in the store could not be read for metrics: %(error)s",
    "a scrape was answered without the gauges of the store; said once, until they can be read again",
)  # fmt: skip
