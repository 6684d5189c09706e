"""Protections of queues."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_MODEL = "model/queues.py"
_SUITE = "store/test_suite.py::test_store[sqlite-"

QUEUES = [
    Mutation(
        "a queue's limit counts what all workers hold",
        _MODEL,
        "room = limits.concurrency - total",
        "room = limits.concurrency - mine",
        _SUITE + "no_more_runs_of_a_queue_are_under_way_than_it_allows]",
    ),
    Mutation(
        "a worker's own limit counts what it holds",
        _MODEL,
        "room = min(room, limits.per_worker - mine)",
        "room = min(room, limits.per_worker)",
        _SUITE + "a_workers_own_limit_holds_beside_that_of_all]",
    ),
    Mutation(
        "a partition key's limit counts what is held with it",
        _MODEL,
        "self._partitions[one.partition] += one.runs",
        "pass",
        _SUITE + "runs_without_a_partition_key_are_under_the_other_limits_only]",
    ),
    Mutation(
        "partition keys come in turn",
        _MODEL,
        "ordered = _in_turn(ordered, gate.row.turn)",
        "pass",
        _SUITE + "partition_keys_come_in_turn_however_much_one_has_enqueued]",
    ),
    Mutation(
        "a rate counts what has begun within its period",
        "store/sqlite/queues.py",
        "now - row.limits.period))\n    return begun",
        "now))\n    return begun",
        _SUITE + "in_no_period_do_more_runs_begin_than_a_rate_allows]",
    ),
    Mutation(
        "a run begins when its queue is free",
        "store/sqlite/store.py",
        "            instant = self.now() if now is None else now\n            return claims.claim_runs(",
        "            return claims.claim_runs(",
        "store/test_queue_clock.py::test_a_run_begins_when_its_queue_is_free_and_not_when_it_was_asked_for[sqlite]",
    ),
    Mutation(
        "a run that goes on is no beginning",
        _MODEL,
        "if self.room < 1 or (one.is_new and self.fresh < 1):",
        "if self.room < 1 or self.fresh < 1:",
        _SUITE + "what_has_begun_before_goes_on_whatever_the_rate]",
    ),
    Mutation(
        "a clock that is set back is made up for",
        "store/sqlite/queues.py",
        "return True  # there is a clock to be made up for",
        "pass",
        _SUITE + "a_clock_that_is_set_back_stops_no_queue_for_longer_than_a_period]",
    ),
    Mutation(
        "what is created for a worker passes no limit",
        "store/sqlite/runs.py",
        "worker = None if delayed or route in limited else claim_for",
        "worker = None if delayed else claim_for",
        _SUITE + "what_is_created_for_a_worker_waits_in_its_queue_like_all_else]",
    ),
    Mutation(
        "one run that is wanted passes no limit",
        "store/sqlite/claims.py",
        "return ([row[:5]], [(gate, [one])]) if gate.admits(one) else ([], [])",
        "return [row[:5]], []",
        _SUITE + "a_run_that_is_wanted_waits_for_a_slot_too_but_not_to_be_cancelled]",
    ),
    Mutation(
        "nothing is due of a queue that is full",
        "store/queueing.py",
        "full.update(one.routes)",
        "pass",
        _SUITE + "a_run_that_sleeps_takes_no_slot_and_needs_one_to_go_on]",
    ),
    Mutation(
        "nothing is claimed from a paused queue",
        _MODEL,
        "self.room = 0 if row.paused else max(0, room)",
        "self.room = max(0, room)",
        _SUITE + "nothing_is_claimed_from_a_queue_that_is_paused]",
    ),
    Mutation(
        "an older build takes no definition back",
        "model/builds.py",
        "return new.build != old.build and new.since < old.since",
        "return False",
        _SUITE + "a_queue_is_defined_by_the_youngest_engine]",
    ),
    Mutation(
        "a key is free only when its time is over",
        "model/reuse.py",
        "found.created_at + reuse.age <= now",
        "True",
        _SUITE + "a_key_stands_for_a_run_for_as_long_as_is_asked]",
    ),
    Mutation(
        "a debounced run that has begun is not put off",
        "model/reuse.py",
        "(reuse.debounce is not None and (found.has_begun or found.has_ended))",
        "False",
        _SUITE + "a_debounced_run_is_put_off_and_takes_what_was_said_last]",
    ),
    Mutation(
        "a debounced run is not put off for ever",
        "model/reuse.py",
        "min(new.delay_until or new.created_at, found.created_at + new.reuse.debounce)",
        "new.delay_until or new.created_at",
        _SUITE + "a_debounced_run_is_put_off_and_takes_what_was_said_last]",
    ),
    Mutation(
        "whoever waits for a rate is woken when it opens",
        "store/queueing.py",
        "(due, *instants) if at is not None",
        "(due,) if at is not None",
        _SUITE + "in_no_period_do_more_runs_begin_than_a_rate_allows]",
    ),
]

__all__ = ["QUEUES"]
