"""The laws about what runs have to do with others: clients, schedules, parents, other runs."""

from __future__ import annotations

from collections import Counter

from perdure.model import payloads
from perdure.model.cadence import decode
from perdure.model.firing import run_id
from perdure.model.records import Kind, Status
from perdure.model.schedules import numbers
from tests.storm import laws
from tests.storm.clients import answers, fork_id, keeps_keys, message, said_of
from tests.storm.evidence import Case, Evidence, key_in
from tests.storm.laws import Broken
from tests.storm.oracle import received
from tests.storm.plan import TICK

Said = dict[tuple[str, str], dict[str, list[object]]]
"""By run id and signal: what each sender has said, in order."""


def said(evidence: Evidence) -> Said:
    """The signals that were acknowledged, and those that runs have sent with their commits."""
    answered = answers(evidence.entries)
    found: Said = {}
    for name, asks in evidence.plan.asks.items():
        for ask in asks:
            if ask.what in {"say", "pass_on"} and (ask.run, said_of(ask)) in answered:
                signal, value = ("word", message(ask)) if ask.what == "say" else ("baton", ask.n)
                found.setdefault((ask.run, signal), {}).setdefault(name, []).append(value)
    for case in evidence.cases:
        if case.workflow == "posting" and case.row.status is Status.COMPLETED:
            run_id = case.row.run_id
            found[f"{run_id}-posted", "word"] = {run_id: [f"{run_id} {i}" for i in range(2)]}
    return found


def heard(evidence: Evidence) -> dict[tuple[str, str], list[object]]:
    """By run id and signal: what was consumed, in order, also by those that went on as new runs."""
    found: dict[tuple[str, str], list[object]] = {}
    for case in sorted(evidence.cases, key=lambda case: case.row.run_key):
        for signal in ("word", "baton"):
            found.setdefault((case.name, signal), []).extend(received(case, signal))
    return found


def signals_arrive_once_in_order(evidence: Evidence) -> Broken:
    """What was acknowledged is consumed exactly once, in each sender's order; nothing else is."""
    sent, consumed = said(evidence), heard(evidence)
    for run, signal in {*sent, *consumed}:
        found, senders = consumed.get((run, signal), []), sent.get((run, signal), {})
        if Counter(map(str, found)) != Counter(str(value) for values in senders.values() for value in values):
            yield f"{run} was told {senders}, and heard {found}"
        for sender, values in senders.items():
            if [value for value in found if value in values] != values:
                yield f"{run} heard {found}, but {sender} said {values} in this order"


def a_key_is_one_run(evidence: Evidence) -> Broken:
    """Whoever asks under one idempotency key is given one run, and there is one; likewise of ids."""
    ids, keys = (
        Counter(case.row.run_id for case in evidence.cases),
        Counter(case.row.idempotency_key for case in evidence.cases if case.row.idempotency_key),
    )
    yield from (f"{times} runs share {what}" for what, times in [*ids.items(), *keys.items()] if times != 1)
    answered = answers(evidence.entries)
    for asks in evidence.plan.asks.values():
        for ask in asks:
            if ask.what == "start_once" and (given := answered.get((ask.run, said_of(ask)))):
                having = {case.row.run_id for case in evidence.cases if case.row.idempotency_key == ask.run}
                if given != having:
                    yield f"under key {ask.run} runs {sorted(given)} were given out, and {sorted(having)} are there"


def children_are_their_parents(evidence: Evidence) -> Broken:
    """Parents and children know of each other; who is cancelled takes along whom it has not abandoned."""
    for case in evidence.cases:
        known: dict[str, dict[str, object]] = {}
        for event in case.of(Kind.CHILD_STARTED):
            start = payloads.fields(event.payload)
            known[start["run_id"]] = start
        theirs = {one.row.run_id for one in evidence.cases if one.row.parent_key == case.row.run_key}
        # A fork is told of its origin's children, whose parent that one is; what is posted has no parent.
        started = {run for run, start in known.items() if not start["abandon"] or run in theirs}
        if theirs - set(known):
            yield f"{case.row.run_id} does not know of {sorted(theirs - set(known))}"
        for run in started:
            child = evidence.by_id.get(run)
            if child is None:
                yield f"{case.row.run_id} started {run}, which is not there"
            elif case.row.status is Status.CANCELLED:
                due = Status.COMPLETED if known[run]["abandon"] else Status.CANCELLED
                if child.row.status is not due and child.workflow in {"lingering", "errand"}:
                    yield f"{run} is {child.row.status.word} since {case.row.run_id} is cancelled"
        for event in case.of(Kind.CHILD_ENDED):
            end = payloads.fields(event.args)
            child = evidence.by_id.get(str(end["run_id"]))
            if child is not None and end["status"] != child.row.status.word:
                yield f"{case.row.run_id} was told that {end['run_id']} is {end['status']}"
        times = Counter(event.key for event in case.of(Kind.CHILD_STARTED))
        yield from (f"{case.row.run_id} started {key} {n} times" for key, n in times.items() if n > 1)


def occurrences_are_one_run_each(evidence: Evidence) -> Broken:
    """Each due occurrence of the schedule is one run, called after it, and no other run is the schedule's."""
    row = evidence.schedule
    if row is None:
        yield "there is no schedule"
        return
    if numbers(row.waiting) or row.fault:
        yield f"the schedule has {row.waiting} waiting, and its fault is {row.fault}"
    when, due = decode(row.cadence), set()
    at = when.next(row.created_at)
    while at is not None and at <= row.watermark:
        due.add(run_id(TICK, at))
        at = when.next(at)
    there = {case.row.run_id for case in evidence.cases if case.workflow == "ticking"}
    if due != there:
        yield f"of the schedule {sorted(due - there)} are missing, and {sorted(there - due)} are too many"
    for record in evidence.occurrences:
        if record.run_id != run_id(TICK, record.first):
            yield f"an occurrence was noted as {record}"


def forks_go_on_from_where_they_part(evidence: Evidence) -> Broken:
    """A fork that was acknowledged is there, has its origin's log up to where it parts, and keys as it was asked to."""
    answered = answers(evidence.entries)
    for asks in evidence.plan.asks.values():
        for ask in asks:
            if ask.what != "fork" or (ask.run, said_of(ask)) not in answered:
                continue
            fork, origin = evidence.by_id.get(fork_id(ask)), evidence.by_id.get(ask.run)
            if fork is None or origin is None:
                yield f"{fork_id(ask)} is lost"
                continue
            if _told(fork, fork.forked_at - 1)[1:] != _told(origin, fork.forked_at - 1)[1:]:
                yield f"{fork_id(ask)} begins otherwise than its origin"
            if keeps_keys(ask) != (key_in(fork, "work#1") == key_in(origin, "work#1")):
                yield f"{fork_id(ask)} has the wrong keys"
            again = sorted({entry.key for entry in fork.begins} & {e.key for e in fork.log[: fork.forked_at]})
            if again:
                yield f"{fork_id(ask)} did {again} again"


def _told(case: Case, seq: int) -> list[tuple[object, ...]]:
    """What the first events of a log say, without the hashes that chain them."""
    return [tuple(event)[1:-1] for event in case.log[:seq]]


LAWS = (
    laws.every_run_has_ended,
    laws.no_committed_step_begins_again,
    laws.no_body_begins_before_its_cause_is_kept,
    laws.repeats_have_the_same_key_and_attempt,
    laws.only_holders_write_and_begin,
    laws.results_are_what_was_recorded,
    laws.timers_fire_once_and_in_time,
    laws.what_is_at_most_once_begins_once,
    laws.cancelled_runs_start_nothing,
    laws.what_is_pushed_is_undone_in_reverse,
    laws.streams_have_no_gap,
    laws.queues_keep_their_limits,
    laws.what_is_stored_is_whole,
    signals_arrive_once_in_order,
    a_key_is_one_run,
    children_are_their_parents,
    occurrences_are_one_run_each,
    forks_go_on_from_where_they_part,
)
"""All laws. Whatever a storm does, none is broken."""


def broken(evidence: Evidence) -> list[str]:
    """What is found broken, by law."""
    return [f"{law.__name__}: {what}" for law in LAWS for what in law(evidence)]
