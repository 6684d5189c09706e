"""The laws that hold whatever a storm has done to workers: about bodies, claims, results and what is stored.

Each is a function of the evidence that says what it finds broken; ``tests/storm/covenants.py`` has those about what
runs have to do with others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from perdure.model import payloads
from perdure.model.records import Event, InboxKind, Kind, Status
from tests.crash.ledger import Entry
from tests.crash.procs import audit_log
from tests.storm.evidence import HOLDERS, Case, Evidence, claims
from tests.storm.oracle import fate
from tests.storm.workflows import NAP, PAUSE, narrow

Broken = Iterator[str]


def every_run_has_ended(evidence: Evidence) -> Broken:
    """Every run that was asked for is there, and each stands as it must: ended, or waiting or blocked with reason."""
    yield from evidence.trouble
    for run in evidence.plan.started():
        if run not in evidence.by_id:
            yield f"{run} is lost"
    for case in evidence.cases:
        due = fate(case)
        if case.row.status is not due.status:
            yield f"{case.row.run_id} is {case.row.status.word}, not {due.status.word}: {case.row.reason}"


def no_committed_step_begins_again(evidence: Evidence) -> Broken:
    """No body begins once its step's outcome is committed, nor twice under one claim; attempts follow failures."""
    for case in evidence.cases:
        try:
            audit_log(evidence.true(case), case.begins, evidence.slack, evidence.overlapping)
        except AssertionError as error:
            yield f"{case.row.run_id}: {error}"
        # Without any clock: what had an outcome before a process first claimed the run never begins there.
        first: dict[int, int] = {}
        for pid, event in claims(case.log):
            if event.seq > case.forked_at:
                first.setdefault(pid, event.seq)
        done = {event.key: event.seq for event in case.of(Kind.STEP_COMPLETED)}
        for entry in case.begins:
            if done.get(entry.key, len(case.log)) < first.get(entry.pid, 0):
                yield f"{case.row.run_id}: {entry.key} began in {entry.pid}, which claimed it when that was committed"


STAGES = {
    "mixed": ("work#1", "work#2|grind#1|flaky#1", "flaky#2", "twice#.*", "grind#2"),
    "long_way": tuple(f"work#{n}" for n in range(1, 7)),
    "telling": tuple(f"narrate#{n}" for n in range(1, 4)),
    "trip": ("take#1", "take#2", "refuse#1"),
    "cancelled": ("take#1", "take#2", "take#3", "idle#.*"),
    "heavily": ("weigh#1", "weigh#2|weigh#3"),
}
"""Which steps' results others wait for: those of one stage are over when one of the next begins."""


def no_body_begins_before_its_cause_is_kept(evidence: Evidence) -> Broken:
    """A body that needs others' outcomes begins when these are kept: none of those begins again after it."""
    for case in evidence.cases:
        reached = 0
        for entry in case.begins:
            stages = STAGES.get(case.workflow, ())
            stage = next((n for n, keys in enumerate(stages) if re.fullmatch(keys, entry.key)), None)
            if stage is None or entry in evidence.overlapping:
                continue
            if stage < reached:
                yield f"{case.row.run_id}: {entry.key} began again after what needs its outcome had begun"
            reached = max(reached, stage)


def repeats_have_the_same_key_and_attempt(evidence: Evidence) -> Broken:
    """A body that begins again has the key and the attempt that it had, until that attempt has failed."""
    for entry in evidence.strange:
        yield f"{entry.run}: {entry.key} {entry.what} with a key that no run gives it"
    for case in evidence.cases:
        last: dict[str, int] = {}
        failed = {(event.key, event.attempt) for event in case.of(Kind.STEP_FAILED)}
        for entry in case.begins:
            if entry in evidence.overlapping:
                continue
            before = last.setdefault(entry.key, entry.attempt)
            if not (entry.attempt == before or (entry.attempt > before and (entry.key, before) in failed)):
                yield f"{case.row.run_id}: attempt {entry.attempt} of {entry.key} began after attempt {before}"
            last[entry.key] = entry.attempt


def only_holders_write_and_begin(evidence: Evidence) -> Broken:
    """Epochs never fall, rise with every claim, and only the claim in force writes; bodies begin under a claim."""
    for case in evidence.cases:
        yield from _epochs(case)
        log = [event for event in evidence.true(case) if event.seq > case.forked_at]
        held = claims(log)
        last = {pid: at for at, (pid, _) in enumerate(held)}
        for entry in case.begins:
            if entry.pid not in last:
                yield f"{case.row.run_id}: {entry.key} began in {entry.pid}, which never claimed it"
            elif last[entry.pid] + 1 < len(held) and entry not in evidence.overlapping:
                after = held[last[entry.pid] + 1][1]
                if entry.at > after.at + evidence.slack:
                    yield f"{case.row.run_id}: {entry.key} began in {entry.pid} after another had claimed it"


def _epochs(case: Case) -> Broken:
    epoch = holder = 0
    for event in case.log:
        if event.epoch < epoch or (event.kind == Kind.RUN_CLAIMED and event.epoch == epoch):
            yield f"{case.row.run_id}: event {event.seq} has epoch {event.epoch} after {epoch}"
        if event.kind == Kind.RUN_CLAIMED:
            holder = event.epoch
        if event.kind in HOLDERS and event.epoch != holder:
            yield f"{case.row.run_id}: event {event.seq} was written under epoch {event.epoch}, held under {holder}"
        epoch = event.epoch


def results_are_what_was_recorded(evidence: Evidence) -> Broken:
    """What a run comes to is what its workflow makes of its input and of the outcomes recorded."""
    for case in evidence.cases:
        due, last = fate(case), case.log[-1]
        if case.row.status is Status.COMPLETED and case.output != due.output:
            yield f"{case.row.run_id} came to {case.output!r}, not {due.output!r}"
        if (
            case.row.status is Status.FAILED
            and case.workflow in {"doomed", "trip"}
            and b"Refused" not in (last.payload or b"")
        ):
            yield f"{case.row.run_id} failed with something else than it is to"


def timers_fire_once_and_in_time(evidence: Evidence) -> Broken:
    """A timer fires once, and not before the instant that was fixed when it was set."""
    for case in evidence.cases:
        done = {event.key: event.at for event in case.of(Kind.STEP_COMPLETED)}
        fired: set[str | None] = set()
        for event in case.of(Kind.TIMER_FIRED):
            if event.key in fired:
                yield f"{case.row.run_id}: {event.key} fired twice"
            fired.add(event.key)
            if case.workflow == "mixed":
                due = max(done.get(key, 0) for key in BEFORE_NAP) + int(NAP * 1_000_000)
            elif case.workflow == "long_way":
                due = done.get((event.key or "").replace("@timer", "work"), 0) + int(PAUSE * 1_000_000)
            else:
                continue
            if event.at < due - 1:
                yield f"{case.row.run_id}: {event.key} fired {due - event.at} µs too early"
        if case.workflow == "mixed" and not case.forked_at and evidence.plan.database == "sqlite":
            yield from _nap(case, evidence.plan.astray)


BEFORE_NAP = ("work#2", "grind#1", "flaky#1")
"""What has ended when a mixed run begins to sleep."""


def _nap(case: Case, astray: float) -> Broken:
    """In the ledger's time: nothing of what comes after a sleep begins before it is over."""
    before = [min((e.mono for e in case.ends if e.key == key), default=0.0) for key in BEFORE_NAP]
    after = min((entry.mono for entry in case.begins if entry.key == "flaky#2"), default=max(before) + NAP)
    if after - max(before) < NAP - astray - 0.001:
        yield f"{case.row.run_id} slept for {after - max(before):.4f} s"


def what_is_at_most_once_begins_once(evidence: Evidence) -> Broken:
    """A body that may run at most once begins at most once."""
    for case in evidence.cases:
        begun = [entry for entry in case.begins if entry.key == "only_once#1"]
        if len(begun) > 1:
            yield f"{case.row.run_id}: {len(begun)} bodies began of what is at most once"


def cancelled_runs_start_nothing(evidence: Evidence) -> Broken:
    """Once a cancel was delivered no step begins but compensations; and a run that is cancelled says so last."""
    for case in evidence.cases:
        delivered = next(case.of(Kind.CANCEL_DELIVERED), None)
        if delivered is None or case.forked_at:
            continue
        true = next(event for event in evidence.true(case) if event.kind == Kind.CANCEL_DELIVERED)
        for event in case.log[delivered.seq :]:
            # What was cancelled without having taken any time was called, and never begun.
            begun = None if event.took is None else event.at - event.took
            if event.kind in _OUTCOMES and not _undoes(event.key) and begun is not None and begun > delivered.at:
                yield f"{case.row.run_id}: {event.key} began after the cancel"
        for entry in case.begins:
            late = entry.at > true.at + evidence.slack and entry not in evidence.overlapping
            if late and not _undoes(entry.key):
                yield f"{case.row.run_id}: the body of {entry.key} began after the cancel"
        if case.row.status is Status.CANCELLED and case.log[-1].kind != Kind.RUN_CANCELLED:
            yield f"{case.row.run_id} is cancelled, and its log goes on"


_OUTCOMES = frozenset({Kind.STEP_COMPLETED, Kind.STEP_FAILED, Kind.STEP_CANCELLED})


def _undoes(key: str | None) -> bool:
    return "give_back#" in (key or "")


def what_is_pushed_is_undone_in_reverse(evidence: Evidence) -> Broken:
    """Of a run that fails or is cancelled all that was pushed is undone, the last first, and nothing of any other."""
    for case in evidence.cases:
        if case.workflow not in {"trip", "cancelled", "stuck", "blocking"}:
            continue
        name = "cannot_give_back" if case.workflow == "stuck" else "give_back"
        tried = _first(case, name)
        taken = {event.key for event in case.of(Kind.STEP_COMPLETED, Kind.STEP_STARTED) if _is_call(event.key, "take")}
        most = {"stuck": 1, "cancelled": 3, "trip": 2 + case.input % 3, "blocking": 0}[case.workflow]
        begun = next(case.of(Kind.UNDO_BEGUN), None)
        if case.row.status is Status.COMPLETED or begun is None:
            if tried:
                yield f"{case.row.run_id} has undone {tried}, which was not due"
            if taken and case.row.status in {Status.FAILED, Status.CANCELLED, Status.BLOCKED}:
                yield f"{case.row.run_id} has undone nothing"
            continue
        pushed = payloads.fields(begun.payload)["undo"]
        if not len(taken) <= len(pushed) <= most or pushed != [f"{name}#{n}" for n in range(len(pushed), 0, -1)]:
            yield f"{case.row.run_id} took {sorted(map(str, taken))} and set out to undo {pushed}"
        if tried != pushed:
            yield f"{case.row.run_id} set out to undo {pushed}, and undid {tried}"
        if case.row.status is not Status.BLOCKED:
            done = [event.key for event in case.of(Kind.STEP_COMPLETED) if _is_call(event.key, name)]
            if done != pushed:
                yield f"{case.row.run_id} set out to undo {pushed}, and has undone {done}"
        if case.workflow == "trip" and sum(map(_is_told, case.of(Kind.STEP_COMPLETED))) != 1:
            yield f"{case.row.run_id} has failed, and nobody was told, or more than once"


def _first(case: Case, name: str) -> list[str]:
    """Calls of a step in the order in which their bodies first began."""
    return list(dict.fromkeys(entry.key for entry in case.begins if _is_call(entry.key, name)))


def _is_call(key: str | None, name: str) -> bool:
    return (key or "").startswith(f"{name}#")


def _is_told(event: Event) -> bool:
    return (event.key or "").endswith("/hear#1")


def streams_have_no_gap(evidence: Evidence) -> Broken:
    """What code emits is there once, in order; a step that tells again tells from the beginning, the last one all."""
    for case in evidence.cases:
        if case.workflow != "telling":
            continue
        told: defaultdict[str, list[int]] = defaultdict(list)
        chapters = []
        for event in case.of(Kind.EMITTED):
            value = int(event.payload or b"")
            if event.attempt is None:
                chapters.append(value)
            else:
                told[event.key or ""].append(value)
        if chapters != [0, 1, 2]:
            yield f"{case.row.run_id} told of chapters {chapters}"
        if len(told) != len(chapters):
            yield f"{case.row.run_id} told {len(told)} of {len(chapters)} chapters"
        for key, values in told.items():
            follows = all(b in {a + 1, 0} for a, b in zip([-1, *values], values, strict=False))
            if not follows or values[-1] != case.input % 5 + 5:
                yield f"{case.row.run_id}: {key} told {values}"


def queues_keep_their_limits(evidence: Evidence) -> Broken:
    """No more of a queue's runs have bodies under way than its limit says, but for those taken from the frozen."""
    cases = [case for case in evidence.cases if case.workflow == "narrowly"]
    lost = {case.row.run_id: [e.at for e in evidence.true(case) if e.kind == Kind.RUN_RECLAIMED] for case in cases}
    under_way: dict[str, Entry] = {}
    for entry in evidence.entries:
        if entry.what in {"to be killed", "stopped"}:
            under_way = {run: one for run, one in under_way.items() if one.pid != int(entry.key)}
        elif entry.run in lost and entry.what == "end":
            under_way.pop(entry.run, None)
        elif entry.run in lost and entry.what == "begin" and entry not in evidence.overlapping:
            under_way[entry.run] = entry
            held = [
                run
                for run, one in under_way.items()
                if not any(one.at - evidence.slack <= at <= entry.at + evidence.slack for at in lost[run])
            ]
            if len(held) > (narrow.concurrency or 0):
                yield f"{entry.run}: {entry.key} began beside bodies of {held}"


_REQUESTS = (InboxKind.CANCEL, InboxKind.PAUSE)


def what_is_stored_is_whole(evidence: Evidence) -> Broken:
    """Logs, hashes, folds and rows agree; who has ended has no news and no holder; the database itself is well."""
    yield from evidence.damage
    for case in evidence.cases:
        if case.row.worker_key is not None:
            yield f"{case.row.run_id} is still held"
    for run_key, kind in evidence.inbox:
        case = evidence.by_key.get(run_key)
        if case is None or case.row.status is Status.COMPLETED:
            yield f"run {run_key} has a message of kind {kind} left"
        elif case.row.status.terminal and kind in _REQUESTS:  # the rest is for when it is resumed
            yield f"{case.row.run_id} is {case.row.status.word} and has a message of kind {kind} left"
