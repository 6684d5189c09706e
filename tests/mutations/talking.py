"""Protections of what is asked of a server without a thread that waits."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_BEHIND = "engine/test_lookout.py::test_who_reads_from_a_server_that_is_behind_the_one_that_was_looked_at_looks_again"
_TALKS = "store/test_talks.py::test_"
_SLOTS = "runtime/test_slots.py::test_"
_IN_STEP = "engine/test_in_step.py::test_"

TALKING = [
    Mutation(
        "what may have been claimed is known where the answer was lost", "store/postgres/talks.py",
        "if torn and self._lost is not None:", "if False:",
        _TALKS + "what_was_claimed_without_an_answer_is_given_by_the_verb_that_waits",
    ),
    Mutation(
        "a transaction that is abandoned ends with its connection", "store/postgres/connection.py",
        "            if not is_clean:\n                self._drop()\n", "",
        _TALKS + "a_claim_that_is_abandoned_has_claimed_nothing_and_locks_nothing",
    ),
    Mutation(
        "a batch is written only if all of it is", "store/postgres/commit.py",
        "[APPLIED] * len(items) if len(passed) == len(items) else None", "[APPLIED] * len(items)",
        _TALKS + "of_a_batch_with_one_refused_item_the_verb_that_waits_tells_which",
    ),
    Mutation(
        "what is claimed ahead begins once there is a slot", "runtime/slots.py",
        "if at_once or len(self.running) - len(self._waiting) <= self._limit:", "if True:",
        _SLOTS + "what_is_claimed_for_a_slot_that_is_about_to_be_free_begins_once_it_is",
    ),
    Mutation(
        "what was claimed for a slot that stays taken is given back", "runtime/slots.py",
        "return self._waiting.popitem()[0] if self._waiting and self.free < 0 else None", "return None",
        _SLOTS + "what_was_claimed_for_a_slot_that_did_not_become_free_is_given_back",
    ),
    Mutation(
        "the store is not idle while runs that are in step go on", "runtime/journal.py",
        "if self._are_in_step(settling) and self._computed > took:", "if False:",
        _IN_STEP + "while_one_half_of_what_is_in_step_is_written_the_other_goes_on",
    ),
    Mutation(
        "who waits for a run that is executed here hears of its end elsewhere", "lookout.py",
        "        if self._trusted:\n", "        if False:\n",
        "engine/test_waiting.py::test_whoever_waits_for_a_run_that_ends_elsewhere_while_it_is_executed_here_is_told[sqlite]",
    ),
    Mutation(
        "who waits for runs asks for none while nothing changes", "lookout.py",
        "any(key in waiting and key not in executing for key in self._trusted)", "bool(self._trusted)",
        "engine/test_waiting.py::test_while_nothing_changes_no_run_is_looked_up_that_is_waited_for[sqlite]",
    ),
    Mutation(
        "who waits for very many runs is told of all", "lookout.py",
        "        if len(found) < MOST:\n", "        if True:\n",
        "engine/test_lookout.py::test_thousands_wait_for_what_another_process_executes_and_all_are_told[sqlite]",
    ),
    Mutation(
        "who has waited for a run before goes on waiting if others cannot look at it", "lookout.py",
        "            self._left += reversed(keys)\n            self._loop.call_later(TICK, self._go_on)\n", "",
        "engine/test_lookout.py::"
        "test_who_cannot_be_told_whether_a_run_has_ended_hears_why_and_who_waits_already_goes_on[sqlite]",
    ),
    Mutation(
        "a log that is older than the run's row is no damage", "operations/verbs.py",
        "            if await self.row_of(row.run_key, row.run_id) != row:\n", "            if False:\n",
        _BEHIND + "[sqlite-7-True]",
    ),
    Mutation(
        "a log that was older than the run's row is read again", "operations/verbs.py",
        "            events = await self.events(row)\n", "", _BEHIND + "[sqlite-2-True]",
    ),
    Mutation(
        "a run that is not there where it is read is looked at again", "waiting.py",
        "raise WentOn from None  # purged since", "raise  # purged since", _BEHIND + "[sqlite-4-False]",
    ),
    Mutation(
        "who looks without waiting leaves a server that takes no writes", "store/postgres/connection.py",
        "            if is_read_only:\n", "            if False:\n",
        "store/test_postgres_links.py::test_who_looks_without_waiting_stays_with_no_server_that_takes_no_writes",
    ),
    Mutation(
        "a run that is claimed anew does not leave its slot", "runtime/slots.py",
        "self._leaving.discard(run.run_key)  # if it", "pass  # if it",
        _SLOTS + "a_run_that_is_claimed_anew_before_its_wait_is_told_keeps_its_slot",
    ),
    Mutation(
        "what waits for a slot does not go on when it hears news", "runtime/run.py",
        "if self._advancing or self._rejoining or", "if self._advancing or",
        _IN_STEP + "what_is_waiting_for_a_slot_does_not_go_on_when_it_hears_news",
    ),
    Mutation(
        "a run whose last event is being written is still held", "runtime/vigil.py",
        "if run.leaving is not None:", "if False:",
        _IN_STEP + "a_run_that_is_written_as_waiting_is_not_taken_for_one_that_others_hold",
    ),
    Mutation(
        "what the server is still claiming is waited for", "store/postgres/claims.py",
        'yield ask("lock_runs", bigints(sorted(key for key, _ in wanted)), bigints([]))', "pass",
        _TALKS + "what_the_server_is_still_claiming_when_the_connection_is_lost_is_not_forgotten",
    ),
    Mutation(
        "a run whose claim was not answered goes on with the log that is there", "store/postgres/runs.py",
        "self._claim(row, logs.get(row.run_key))", "self._claim(row)",
        _TALKS + "a_run_whose_creation_was_not_answered_is_found_to_be_new",
    ),
    Mutation(
        "an event loop does not keep a connection from threads that wait for it", "store/postgres/mutex.py",
        "return not self.is_wanted and self._lock", "return self._lock",
        "store/test_mutex.py::test_what_somebody_waits_for_is_not_taken_again",
    ),
    Mutation(
        "what is locked before anything is known is not taken for all there is", "store/postgres/claims.py",
        "if is_gated_ready or not self._is_all_ready or", "if is_gated_ready or",
        _TALKS + "what_is_locked_before_anything_is_known_is_not_all_that_is_claimed",
    ),
    Mutation(
        "what queues with limits let through is not forgotten for what is locked at once", "store/postgres/claims.py",
        "if is_gated_ready or not self._is_all_ready or", "if not self._is_all_ready or",
        _TALKS + "what_is_locked_before_anything_is_known_is_of_no_queue_with_limits",
    ),
    Mutation(
        "nothing is locked at once of a queue that has got limits", "store/postgres/claims.py",
        " or self._limiting != plain.limiting:", ":",
        _TALKS + "what_is_locked_before_anything_is_known_is_of_no_queue_with_limits",
    ),
    Mutation(
        "no queue is locked across turns of an event loop", "store/postgres/claims.py",
        "if self.locks_queues:", "if False:",
        _TALKS + "no_queue_is_locked_while_an_event_loop_does_something_else",
    ),
]  # fmt: skip
