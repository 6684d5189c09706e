"""That the laws can be broken: what a quiet round leaves is doctored, and each law sees what is wrong with it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from perdure.model.records import Kind, Status
from tests.crash.ledger import Entry
from tests.crash.procs import Crew
from tests.storm.covenants import LAWS, broken
from tests.storm.evidence import Case, Evidence, gather
from tests.storm.plan import SHORT, Size, make_plan
from tests.storm.world import World

pytestmark = [pytest.mark.crash, pytest.mark.only("sqlite")]

Doctor = Callable[[Evidence], None]
LATER = 10_000_000
ACTS = 3
BEGUN = [
    *((f"cancelled-0-{n}", "idle#2") for n in range(3)),
    *((f"guardian-0-{n}", "work#1") for n in range(2)),
    ("tick@", "work#1"),
]
"""What is waited for before anything is cancelled."""


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """What a storm without any fault leaves."""
    plan = make_plan(2, "sqlite", Size(0, 1, {"fill_disk": ACTS}, (60.0, 60.0)))
    last = {"cancel", "unschedule"}
    plan.asks = {  # what ends something comes last, when all has begun
        name: [replace(ask, at=ask.at + (ask.what in last) * ACTS) for ask in asks] for name, asks in plan.asks.items()
    }
    plan.asks["north"].sort(key=lambda ask: ask.at)
    crew = Crew(tmp_path_factory.mktemp("quiet"))
    try:
        world = World(plan, crew)
        world.rage()
        crew.ledger.until(lambda said: all(map(partial(has_begun, said), BEGUN)))
        for _ in range(ACTS):
            crew.ledger.write("fill_disk")
        return gather(plan, crew, world.calm_down())
    finally:
        crew.close()


def has_begun(said: list[Entry], what: tuple[str, str]) -> bool:
    """Whether such a body has begun in such a run."""
    return any(entry.run.startswith(what[0]) and entry.key == what[1] for entry in said)


def one(evidence: Evidence, workflow: str, which: Callable[[Case], bool] = lambda case: not case.forked_at) -> Case:
    """A run of a workflow; none that was forked, unless told otherwise."""
    return next(case for case in evidence.cases if case.workflow == workflow and which(case))


def event(case: Case, kind: Kind, key: str | None = None) -> int:
    """The place of an event in a run's log."""
    return next(n for n, e in enumerate(case.log) if e.kind == kind and key in {None, e.key})


def change(case: Case, place: int, /, **fields: Any) -> None:
    case.log[place] = case.log[place]._replace(**fields)


def again(case: Case, key: str, **fields: Any) -> Entry:
    """A body that began again after all was over."""
    entry = next(entry for entry in case.begins if entry.key == key)
    case.begins.append(replace(entry, **({"at": entry.at + LATER} | fields)))
    return case.begins[-1]


def anew(evidence: Evidence) -> Evidence:
    """The same evidence, looked at afresh: entries belong to runs by what they say."""
    return Evidence(
        evidence.plan, evidence.entries, [Case(case.row, case.log, case.output) for case in evidence.cases],
        evidence.schedule, evidence.occurrences, evidence.inbox, evidence.damage, evidence.trouble,
    )  # fmt: skip


# -- what is done to the evidence


def a_run_is_lost(evidence: Evidence) -> None:
    evidence.cases.remove(one(evidence, "mixed"))
    del evidence.by_id


def a_run_goes_on_for_ever(evidence: Evidence) -> None:
    case = one(evidence, "blocking")
    case.row = case.row._replace(status=Status.RUNNING)


def a_committed_body_begins_later(evidence: Evidence) -> None:
    again(one(evidence, "mixed"), "work#1")


def a_committed_body_begins_where_it_was_known(evidence: Evidence) -> None:
    # By no clock, but by whose claim it was: a claim of another process follows, under which it begins at once.
    case = one(evidence, "errand")
    at, last = event(case, Kind.STEP_COMPLETED), case.log[-1]
    claim = case.log[event(case, Kind.RUN_CLAIMED)]
    payload = (claim.payload or b"").replace(str(case.begins[0].pid).encode(), b"77")
    case.log += [
        claim._replace(seq=last.seq + 1, payload=payload, epoch=last.epoch + 1, at=last.at),
        last._replace(seq=last.seq + 2),
    ]
    assert case.log[at].key == "work#1"
    case.begins.append(replace(case.begins[0], pid=77))


def a_body_begins_twice_under_one_claim(evidence: Evidence) -> None:
    again(one(evidence, "mixed"), "work#1", at=0)


def a_cause_is_done_again(evidence: Evidence) -> None:
    again(one(evidence, "long_way"), "work#3", at=0)


def an_attempt_is_counted_twice(evidence: Evidence) -> None:
    again(one(evidence, "errand"), "work#1", attempt=2, at=0)


def a_repeat_has_another_key(evidence: Evidence) -> None:
    entry = next(entry for entry in evidence.entries if entry.what == "begin")
    evidence.entries.append(replace(entry, idem="x" * 32))
    evidence.__dict__.update(vars(anew(evidence)))


def an_older_epoch_writes(evidence: Evidence) -> None:
    case = one(evidence, "mixed")
    at = event(case, Kind.STEP_COMPLETED)
    change(case, at, epoch=case.log[at].epoch - 1)


def two_claims_have_one_epoch(evidence: Evidence) -> None:
    case = one(evidence, "mixed")
    at = event(case, Kind.RUN_CLAIMED)
    case.log.insert(at, case.log[at])


def a_body_begins_without_a_claim(evidence: Evidence) -> None:
    again(one(evidence, "mixed"), "work#1", pid=1)


def a_result_is_wrong(evidence: Evidence) -> None:
    one(evidence, "mixed").output += 1


def a_failure_is_another(evidence: Evidence) -> None:
    case = one(evidence, "doomed")
    change(case, -1, payload=b"{}")


def a_timer_fires_twice(evidence: Evidence) -> None:
    case = one(evidence, "long_way")
    case.log.append(case.log[event(case, Kind.TIMER_FIRED)])


def a_timer_fires_early(evidence: Evidence) -> None:
    case = one(evidence, "mixed")
    at = event(case, Kind.TIMER_FIRED)
    change(case, at, at=case.log[at].at - LATER)


def a_sleeper_wakes_early(evidence: Evidence) -> None:
    case = one(evidence, "mixed")
    entry = next(entry for entry in case.begins if entry.key == "flaky#2")
    case.begins.append(replace(entry, mono=entry.mono - 10))


def what_is_at_most_once_begins_again(evidence: Evidence) -> None:
    again(one(evidence, "once"), "only_once#1", at=0)


def a_cancelled_run_goes_on(evidence: Evidence) -> None:
    case = one(evidence, "cancelled")
    done = case.log[event(case, Kind.STEP_COMPLETED)]
    case.log.append(done._replace(at=case.log[-1].at + 1000, took=1))


def a_body_begins_after_the_cancel(evidence: Evidence) -> None:
    again(one(evidence, "guardian"), "work#1")


def undone_in_the_order_of_doing(evidence: Evidence) -> None:
    case = one(evidence, "cancelled", lambda case: len(list(case.of(Kind.UNDO_BEGUN))) == 1)
    case.begins.reverse()


def something_is_not_undone(evidence: Evidence) -> None:
    case = one(evidence, "trip", lambda case: case.row.status is Status.FAILED)
    del case.log[event(case, Kind.STEP_COMPLETED, "give_back#1")]


def undone_although_all_went_well(evidence: Evidence) -> None:
    case = one(evidence, "blocking")
    case.begins.append(replace(case.begins[0], key="give_back#1"))


def nobody_hears_of_a_failure(evidence: Evidence) -> None:
    case = one(evidence, "trip", lambda case: case.row.status is Status.FAILED)
    del case.log[event(case, Kind.STEP_COMPLETED, "@failure#1/hear#1")]


def a_stream_has_a_gap(evidence: Evidence) -> None:
    case = one(evidence, "telling")
    del case.log[[n for n, e in enumerate(case.log) if e.kind == Kind.EMITTED and e.attempt][2]]


def a_stream_says_something_twice(evidence: Evidence) -> None:
    case = one(evidence, "telling")
    at = next(n for n, e in enumerate(case.log) if e.kind == Kind.EMITTED and e.attempt is None)
    case.log.insert(at, case.log[at])


def a_queue_is_too_wide(evidence: Evidence) -> None:
    bodies = [entry for entry in evidence.entries if entry.run.startswith("narrowly") and entry.what == "begin"]
    evidence.entries += [next(entry for entry in bodies if entry.run == run) for run in {entry.run for entry in bodies}]


def a_hash_is_wrong(evidence: Evidence) -> None:
    evidence.damage.append("said by perdure verify")


def an_ended_run_has_news(evidence: Evidence) -> None:
    evidence.inbox.append((one(evidence, "mixed").row.run_key, 2))


def an_ended_run_is_held(evidence: Evidence) -> None:
    case = one(evidence, "mixed")
    case.row = case.row._replace(worker_key=1)


def a_signal_is_lost(evidence: Evidence) -> None:
    case = one(evidence, "listening")
    del case.log[event(case, Kind.SIGNAL_RECEIVED)]


def a_signal_is_heard_twice(evidence: Evidence) -> None:
    case = one(evidence, "relay")
    case.log.append(case.log[event(case, Kind.SIGNAL_RECEIVED)])


def signals_overtake_each_other(evidence: Evidence) -> None:
    case = one(evidence, "listening")
    case.log.reverse()


def a_key_is_two_runs(evidence: Evidence) -> None:
    case = one(evidence, "errand", lambda case: case.row.idempotency_key is not None)
    evidence.cases.append(Case(case.row._replace(run_id="another"), case.log))


def a_key_is_answered_with_another_run(evidence: Evidence) -> None:
    entries = enumerate(evidence.entries)
    at, entry = next((n, e) for n, e in entries if "answered" in e.what and e.key.startswith("start_once "))
    evidence.entries[at] = replace(entry, what="answered another")


def a_child_is_nobodys(evidence: Evidence) -> None:
    case = one(evidence, "family")
    del case.log[event(case, Kind.CHILD_STARTED)]


def a_child_outlives_its_parent(evidence: Evidence) -> None:
    guardian = one(evidence, "guardian").row.run_key
    case = one(evidence, "lingering", lambda case: case.row.parent_key == guardian)
    case.row = case.row._replace(status=Status.COMPLETED)


def a_parent_is_told_wrongly(evidence: Evidence) -> None:
    case = one(evidence, "family")
    at = event(case, Kind.CHILD_ENDED)
    change(case, at, args=(case.log[at].args or b"").replace(b"completed", b"cancelled"))


def an_occurrence_is_left_out(evidence: Evidence) -> None:
    evidence.cases.remove(one(evidence, "ticking"))


def an_occurrence_is_two_runs(evidence: Evidence) -> None:
    case = one(evidence, "ticking")
    evidence.cases.append(Case(case.row._replace(run_id=f"{case.row.run_id}0"), case.log))


def a_fork_does_again_what_was_done(evidence: Evidence) -> None:
    case = one(evidence, "mixed", lambda case: case.forked_at > 0)
    case.begins.append(replace(case.begins[0], key="work#1"))


def a_fork_begins_otherwise(evidence: Evidence) -> None:
    case = one(evidence, "mixed", lambda case: case.forked_at > 0)
    change(case, 2, payload=b"0")


BREAKS: dict[Doctor, str] = {
    a_run_is_lost: "every_run_has_ended",
    a_run_goes_on_for_ever: "every_run_has_ended",
    a_committed_body_begins_later: "no_committed_step_begins_again",
    a_committed_body_begins_where_it_was_known: "no_committed_step_begins_again",
    a_body_begins_twice_under_one_claim: "no_committed_step_begins_again",
    a_cause_is_done_again: "no_body_begins_before_its_cause_is_kept",
    an_attempt_is_counted_twice: "repeats_have_the_same_key_and_attempt",
    a_repeat_has_another_key: "repeats_have_the_same_key_and_attempt",
    an_older_epoch_writes: "only_holders_write_and_begin",
    two_claims_have_one_epoch: "only_holders_write_and_begin",
    a_body_begins_without_a_claim: "only_holders_write_and_begin",
    a_result_is_wrong: "results_are_what_was_recorded",
    a_failure_is_another: "results_are_what_was_recorded",
    a_timer_fires_twice: "timers_fire_once_and_in_time",
    a_timer_fires_early: "timers_fire_once_and_in_time",
    a_sleeper_wakes_early: "timers_fire_once_and_in_time",
    what_is_at_most_once_begins_again: "what_is_at_most_once_begins_once",
    a_cancelled_run_goes_on: "cancelled_runs_start_nothing",
    a_body_begins_after_the_cancel: "cancelled_runs_start_nothing",
    undone_in_the_order_of_doing: "what_is_pushed_is_undone_in_reverse",
    something_is_not_undone: "what_is_pushed_is_undone_in_reverse",
    undone_although_all_went_well: "what_is_pushed_is_undone_in_reverse",
    nobody_hears_of_a_failure: "what_is_pushed_is_undone_in_reverse",
    a_stream_has_a_gap: "streams_have_no_gap",
    a_stream_says_something_twice: "streams_have_no_gap",
    a_queue_is_too_wide: "queues_keep_their_limits",
    a_hash_is_wrong: "what_is_stored_is_whole",
    an_ended_run_has_news: "what_is_stored_is_whole",
    an_ended_run_is_held: "what_is_stored_is_whole",
    a_signal_is_lost: "signals_arrive_once_in_order",
    a_signal_is_heard_twice: "signals_arrive_once_in_order",
    signals_overtake_each_other: "signals_arrive_once_in_order",
    a_key_is_two_runs: "a_key_is_one_run",
    a_key_is_answered_with_another_run: "a_key_is_one_run",
    a_child_is_nobodys: "children_are_their_parents",
    a_child_outlives_its_parent: "children_are_their_parents",
    a_parent_is_told_wrongly: "children_are_their_parents",
    an_occurrence_is_left_out: "occurrences_are_one_run_each",
    an_occurrence_is_two_runs: "occurrences_are_one_run_each",
    a_fork_does_again_what_was_done: "forks_go_on_from_where_they_part",
    a_fork_begins_otherwise: "forks_go_on_from_where_they_part",
}
"""What is done to the evidence, and which law must see it, whatever others do."""


def test_each_law_sees_what_breaks_it(evidence: Evidence) -> None:
    assert "\n".join(broken(evidence)) == ""
    assert set(BREAKS.values()) == {law.__name__ for law in LAWS}
    unseen = []
    for doctor, name in BREAKS.items():
        doctored = copy.deepcopy(evidence)
        doctor(doctored)
        law = next(law for law in LAWS if law.__name__ == name)
        if not list(law(doctored)):
            unseen.append(doctor.__name__)
    assert ", ".join(unseen) == ""


def test_a_plan_is_its_seeds() -> None:
    plan = make_plan(7, "postgres", SHORT["postgres"])
    assert make_plan(7, "postgres", SHORT["postgres"]) == plan
    assert make_plan(8, "postgres", SHORT["postgres"]).asks != plan.asks
