"""Perdure's protections, each with the change of the code that switches it off and the test that must notice."""

from __future__ import annotations

from tests.mutations.coding import CODING
from tests.mutations.contrib import CONTRIB
from tests.mutations.diagnosis import DIAGNOSIS
from tests.mutations.integrity import INTEGRITY
from tests.mutations.keeping import KEEPING
from tests.mutations.kit import KIT
from tests.mutations.listing import LISTING
from tests.mutations.messages import MESSAGES
from tests.mutations.mutation import Mutation
from tests.mutations.observing import OBSERVING
from tests.mutations.outboxes import OUTBOXES
from tests.mutations.power import POWER
from tests.mutations.queues import QUEUES
from tests.mutations.schedules import SCHEDULES
from tests.mutations.talking import TALKING
from tests.mutations.transactions import TRANSACTIONS
from tests.mutations.undoing import UNDOING
from tests.mutations.watching import WATCHING
from tests.mutations.web import WEB

_COMMIT, _RECLAIM = "store/sqlite/commit.py", "store/sqlite/reclaim.py"
_JUDGING = "store/judging.py"
_BUILDS = "store/sqlite/builds.py"
_RUN, _OUTCOMES = "runtime/run.py", "runtime/outcomes.py"
_FORK = "engine/test_fork.py::test_"
_PROMISES = "runtime/test_promises.py::test_"
_PATCHES = "runtime/test_patches.py::test_"
_INTERLEAVINGS = "runtime/test_interleavings.py::test_"


def _suite(case: str) -> str:
    return f"store/test_suite.py::test_store[sqlite-{case}]"


TABLE = [
    # -- the fence
    Mutation(
        "a write is conditional on the epoch", _JUDGING,
        "valid = held and epoch == item.epoch and before != 0", "valid = held and before != 0",
        _suite("who_lost_its_claim_writes_nothing"),
    ),
    Mutation(
        "a write is conditional on the run being held", _JUDGING,
        "valid = held and epoch == item.epoch and before != 0", "valid = epoch == item.epoch and before != 0",
        _suite("the_epoch_alone_does_not_let_in_who_does_not_hold_the_run"),
    ),
    Mutation(
        "nothing follows the end of a hold in its batch", _JUDGING,
        "valid = held and epoch == item.epoch and before != 0", "valid = held and epoch == item.epoch",
        _suite("after_the_end_of_its_hold_a_batch_writes_nothing_more_for_a_run"),
    ),
    Mutation(
        "a resend is recognised", _JUDGING,
        "if first <= stored and is_there(item):", "if False:",
        _suite("what_is_sent_again_is_there_already"),
    ),
    Mutation(
        "only the very same write passes for a resend", _COMMIT,
        "return sent == fetch(cursor, _MARKS, (item.run_key, sent[0][0], sent[-1][0]))", "return True",
        _suite("another_epoch_may_not_pass_for_a_resend"),
    ),
    Mutation(
        "an ending that has not seen the news is stale", _JUDGING,
        "if item.inbox_seen is not None and item.inbox_seen != inbox:", "if False:",
        _suite("news_that_the_holder_has_not_seen_makes_its_ending_stale"),
    ),
    Mutation(
        "news is consumed once", _COMMIT,
        "            raise _Gone\n", "            pass\n",
        _suite("an_inbox_row_is_consumed_once"),
    ),
    Mutation(
        "what was consumed is known when it is sent again", "store/sqlite/queries/inbox.sql",
        "DELETE FROM inbox WHERE inbox_key = ?1 AND run_key = ?2 AND dedup IS NULL;",
        "DELETE FROM inbox WHERE inbox_key = ?1 AND run_key = ?2;",
        _suite("a_message_that_was_consumed_is_known_until_the_run_has_completed"),
    ),
    Mutation(
        "messages go out from batches too", _COMMIT,
        "verdicts = _write(cursor, items) if beyond is None else", "verdicts = _write(cursor, items) if True else",
        _suite("a_message_and_a_suspension_in_one_batch_never_miss_each_other"),
    ),
    Mutation(
        "what reaches out has events by which a resend is known", _JUDGING,
        "elif reaches_out(item):", "elif False:",
        _suite("nothing_is_sent_without_the_events"),
    ),
    Mutation(
        "a run that awaits a signal is woken by it", "store/hearing.py",
        "if not run.idle or run.status not in _DORMANT:", "if True:",
        _suite("a_run_is_woken_by_a_signal_it_awaits_and_by_no_other"),
    ),
    Mutation(
        "the end of a child is kept for a parent that may be resumed", "store/hearing.py",
        "(status.terminal and kind not in _OF_CHILDREN)", "status.terminal",
        _suite("the_end_of_a_child_is_kept_for_a_parent_that_may_be_resumed"),
    ),
    Mutation(
        "what was acknowledged outlives a failure", _COMMIT,
        "cursor.execute(_EMPTY if item.state.status is Status.COMPLETED else _DROP, (item.run_key,))",
        "cursor.execute(_EMPTY, (item.run_key,))",
        _suite("what_was_acknowledged_outlives_a_failure_and_a_cancel_but_no_completion"),
    ),
    Mutation(
        "messages whose answer was lost are not delivered again", "store/postgres/messages.py",
        'if self._tried is not None and session.fetch_value("is_committed", self._tried[0]):', "if False:",
        "store/test_postgres_messages.py::test_what_has_been_consumed_meanwhile_is_not_delivered_again",
    ),
    Mutation(
        "a parent is told when the store cancels a child", "store/sqlite/log.py",
        "        _tell_parent(cursor, event)\n", "",
        _suite("a_parent_is_told_when_a_child_is_cancelled_from_outside"),
    ),
    Mutation(
        "a parent is told that the id of a child is taken", "store/sqlite/outreach.py",
        "if run.parent_key is not None and created.row.uid != run.uid", "if False",
        _suite("a_parent_is_told_that_the_id_of_a_child_is_taken"),
    ),
    Mutation(
        "a run whose code has begun is cancelled by its code, not behind its back", "store/controlling.py",
        "if self.status is Status.BLOCKED or self.epoch == 0:", "if True:",
        _suite("a_suspended_run_is_cancelled_by_who_claims_it_next"),
    ),
    Mutation(
        "a cancel is not paused", "store/sqlite/control.py",
        "if asked_to_cancel(cursor, run_key) is not None:", "if False:",
        _suite("what_has_ended_is_blocked_or_is_to_be_cancelled_is_not_paused"),
    ),
    Mutation(
        "after a failure at COMMIT the disk is asked what it has", _COMMIT,
        "                if _is_there(cursor, item):\n                    return\n", "                return\n",
        "store/test_faults.py::test_what_was_written_although_its_commit_failed_counts_as_written",
    ),
    # -- the disk
    Mutation(
        "a commit waits for the disk", "store/sqlite/connect.py",
        'QUERIES[f"synchronous_{durability}"]', 'QUERIES["synchronous_process"]',
        "store/test_opening.py::test_every_writing_connection_is_as_durable_as_promised[disk-2]",
    ),
    Mutation(
        "whether commits wait for the disk is read back", "store/sqlite/connect.py",
        "if found != wanted:", "if False:",
        "store/test_opening.py::test_a_library_that_does_not_sync_as_it_is_told_opens_nothing",
    ),
    Mutation(
        "a second SQLite library is kept from the store", "store/sqlite/guard.py",
        "sys.addaudithook(_audit)", "pass",
        "store/test_guard.py::test_the_standard_library_does_not_open_an_open_store[text]",
    ),
    Mutation(
        "the database of another program is not opened", "store/sqlite/files.py",
        'if int.from_bytes(header[_APPLICATION_ID_AT : _APPLICATION_ID_AT + 4], "big") != APPLICATION_ID:', "if False:",
        "store/test_refusals.py::test_the_database_of_another_program_is_not_touched[wal]",
    ),
    Mutation(
        "what another program was quicker to write is not touched", "store/sqlite/schema.py",
        'if _number(connection, "application_id") != APPLICATION_ID:', "if False:",
        "store/test_migrate.py::test_a_file_that_became_another_programs_meanwhile_is_not_touched[0]",
    ),
    Mutation(
        "a store of a newer format is refused", "store/sqlite/schema.py",
        "if least > FORMAT:", "if False:",
        "store/test_refusals.py::test_a_store_of_a_newer_perdure_is_refused["
        "UPDATE store_info SET value = '99' WHERE name = 'least_format']",
    ),
    Mutation(
        "nothing is opened in place of a file that has gone", "store/sqlite/connection.py",
        """execute(QUERIES["data_version"]).fetchall()
            place.require()
""", """execute(QUERIES["data_version"]).fetchall()
""",
        "store/test_gone.py::test_a_file_that_goes_while_a_connection_is_opened_is_gone_and_nothing_else"
        "[reads-replaced-after]",
    ),
    Mutation(
        "an engine that starts hears that its store has gone", "engine.py",
        "_ = self._ops  # raises if the store has gone", "pass  # raises if the store has gone",
        "engine/test_lifecycle.py::test_a_store_that_goes_while_the_engine_starts_is_no_store_to_start_on",
    ),
    # -- what is recorded is checked
    Mutation(
        "a log is checked before it is gone on from", _RUN,
        "chain.check(self.uid, self.events, run_id=self.run_id)", "pass",
        _PROMISES + "a_log_that_was_changed_is_not_gone_on_from",
    ),
    Mutation(
        "a log is checked before its result is given out", "operations/verbs.py",
        "chain.check(row.uid, events, run_id=row.run_id)", "pass",
        _PROMISES + "a_result_that_was_changed_is_not_given_out",
    ),
    Mutation(
        "verify checks the log", "verifying.py",
        "chain.check(row.uid, page, run_id=row.run_id, after=last)", "pass",
        "cli/test_verify.py::test_damage_is_found_and_named["
        "sqlite-update events set took = took + 1 where run_key = 1 and seq = 3-event 3 of run 'a' is not what was]",
    ),
    Mutation(
        "a recorded outcome belongs to its arguments", "runtime/drift.py",
        "if recorded is None or recorded == found or step.arguments.same(recorded, found):", "if True:",
        _PROMISES + "code_that_departs_from_its_log_runs_nothing[other_argument]",
    ),
    Mutation(
        "a recorded step that moved is not run again", _RUN,
        "if self.replay.late and not drift.guard_moved(self, call):", "if False:",
        _PROMISES + "code_that_departs_from_its_log_runs_nothing[other_place]",
    ),
    # -- replay
    Mutation(
        "outcomes are delivered in the order of the log", "model/replay.py",
        "                self._outcomes.append(event)\n", "                self._outcomes.insert(0, event)\n",
        "runtime/test_scenarios.py::test_a_run_cut_anywhere_goes_on_and_replays_alike[kept-shared_list]",
    ),
    Mutation(
        "sets of tasks are gone through alike", "runtime/runloop.py",
        "    n: int\n    scope: Scope\n\n    def __hash__(self) -> int:\n        return self.n\n",
        "    n: int\n    scope: Scope\n\n    def __hash__(self) -> int:\n        return id(self) >> 4\n",
        "runtime/test_scenarios.py::test_a_run_cut_anywhere_goes_on_and_replays_alike[kept-group_abort_idle]",
    ),
    Mutation(
        "an activation is bounded", "runtime/runloop.py",
        "PASSES = 256", "PASSES = 1_000_000",
        _PROMISES + "a_workflow_that_polls_gets_its_outcome",
    ),
    Mutation(
        "what is not durable fails the run even if it is swallowed", "runtime/runloop.py",
        "        if self.poison is None:\n            self.poison = error\n", "",
        "runtime/test_not_durable.py::test_it_is_refused_with_advice[to_thread]",
    ),
    Mutation(
        "cancelling a step is a request", "runtime/calls.py",
        "            call.abort()\n",
        "            call.abort()\n            return super().cancel(msg)\n",
        "runtime/test_cancelling.py::test_the_await_ends_as_cancelled_when_the_body_has_settled_whatever_it_did"
        "[async_body-completes]",
    ),
    Mutation(
        "an outcome does not swallow the cancel before it", _OUTCOMES,
        "return (future.settle_cancelled,) if call.cancelled else (future.set_result, value)",
        "return future.set_result, value",
        "runtime/test_cancelling.py::test_the_await_ends_as_cancelled_when_the_body_has_settled_whatever_it_did"
        "[async_body-completes]",
    ),
    Mutation(
        "the live value is what the stored bytes decode to", _OUTCOMES,
        "payload, value = ended.sealed or step.result.roundtrip(ended.value)",
        "payload, value = step.result.roundtrip(ended.value)[0], ended.value",
        _PROMISES + "steps_and_workflow_share_no_object",
    ),
    Mutation(
        "bodies get copies of their arguments", "model/arguments.py",
        "copies.append(copy)", "copies.append(value)",
        _PROMISES + "steps_and_workflow_share_no_object",
    ),
    # -- the barrier
    Mutation(
        "a body begins when all before it is on disk", _RUN,
        "if call.barrier > self.durable and not host.journal.barrier(self):", "if False:",
        _PROMISES + "a_body_begins_when_all_before_it_is_on_disk",
    ),
    Mutation(
        "an attempt begins when the failure of the last is on disk", _OUTCOMES,
        "        call.barrier = run.seq\n", "        call.barrier = 0\n",
        _PROMISES + "the_next_attempt_begins_when_the_failure_of_the_last_is_on_disk",
    ),
    Mutation(
        "what may begin once begins when that is on disk", _RUN,
        "                call.barrier = self.seq\n                startable.appendleft(call)\n",
        "                startable.appendleft(call)\n",
        _PROMISES + "what_may_begin_once_begins_when_that_is_on_disk",
    ),
    Mutation(
        "what may begin once is marked before it begins", _RUN,
        "if step.at_most_once and not call.marked:", "if False:",
        _PROMISES + "what_may_begin_once_begins_when_that_is_on_disk",
    ),
    Mutation(
        "what began once does not begin again", _RUN,
        "if step.at_most_once and call.interrupted:", "if False:",
        _PROMISES + "what_may_begin_once_does_not_begin_again_after_a_crash",
    ),
    Mutation(
        "a result is told when it is on disk", _RUN,
        "        if not self.host.journal.barrier(self):\n            self.host.owner.run_leaves(self)\n",
        "        self.host.owner.run_ended(self)\n",
        _PROMISES + "a_result_is_told_when_it_is_on_disk",
    ),
    Mutation(
        "no body begins while the lease is in doubt", _RUN,
        "if not host.lease_ok():", "if False:",
        _PROMISES + "no_body_begins_while_the_lease_is_in_doubt",
    ),
    # -- what happens at the same time
    Mutation(
        "pauses do not count on a run's clock, and the past stays as it was", "model/replay.py",
        "sum(pause for resumed, pause in self.pauses.items() if resumed <= seq)", "sum(self.pauses.values())",
        _INTERLEAVINGS + "a_resumed_run_sees_the_instants_it_saw_and_the_pause_counts_on_no_timer",
    ),
    Mutation(
        "what is on disk as begun begins", "runtime/calls.py",
        "if call.marked and call.step.at_most_once and not call.cancelled:", "if False:",
        _INTERLEAVINGS + "what_is_marked_as_begun_begins_even_if_the_engine_stops_meanwhile",
    ),
    Mutation(
        "what is written again keeps what came with it", _RUN,
        "            again.artifacts, again.take, again.children = item.artifacts, item.take, item.children\n", "",
        _INTERLEAVINGS + "an_ending_that_was_stale_is_written_again_with_all_that_came_with_it",
    ),
    Mutation(
        "what a failed attempt has kept is kept", _OUTCOMES,
        "        run.item.artifacts = [*run.item.artifacts, *ended.artifacts]\n", "        pass\n",
        _INTERLEAVINGS + "what_a_failed_attempt_has_kept_is_there",
    ),
    Mutation(
        "a look at what is held says nothing of what is claimed after it", "runtime/vigil.py",
        "if epochs.get(run) == run.epoch != held.get(run.run_key):", "if run.epoch != held.get(run.run_key):",
        _INTERLEAVINGS + "a_run_that_is_claimed_while_it_is_looked_which_are_held_is_kept",
    ),
    Mutation(
        "verbs wait for the one on the thread", "runtime/journal.py",
        "while (self._pending or self._verbs) and not self._busy:", "while self._pending or self._verbs:",
        _INTERLEAVINGS + "verbs_are_executed_in_their_order_whoever_asks_while_another_is_answered",
    ),
    Mutation(
        "who asks something of the store has a turn between batches", "runtime/journal.py",
        "self._owed = len(self._verbs)\n", "self._owed = 0\n",
        _INTERLEAVINGS + "whoever_asks_something_of_the_store_is_not_kept_waiting_by_those_who_always_write",
    ),
    Mutation(
        "a slot that becomes free while the claiming ends is not forgotten", "runtime/claiming.py",
        "if not (self._missed and self._hungry):", "if True:",
        _INTERLEAVINGS + "a_slot_that_becomes_free_at_the_end_of_a_claiming_is_filled_at_once",
    ),
    # -- builds
    Mutation(
        "a run is refused at the epoch it was held at", _BUILDS,
        "if not held or current != epoch:", "if not held:",
        _suite("who_lost_a_run_refuses_nothing"),
    ),
    Mutation(
        "a resume is conditional on the epoch that was seen", "store/sqlite/control.py",
        "    if run.epoch != epoch:\n        return None\n", "",
        _suite("a_run_is_resumed_at_the_epoch_that_was_seen"),
    ),
    Mutation(
        "every refusal is remembered", _BUILDS,
        'builds = {build, *json.loads(refused or "[]")}', "builds = {build}",
        _suite("every_build_is_asked_once"),
    ),
    Mutation(
        "a refused run is left to none but living builds that have not refused it", _BUILDS,
        "if living(cursor, route) - builds and", "if living(cursor, route) and",
        _suite("a_run_that_no_other_build_serves_is_blocked"),
    ),
    Mutation(
        "a refused run that is stranded is blocked", _BUILDS,
        "if builds <= refused:", "if False:",
        _suite("a_run_is_blocked_when_the_last_build_it_was_left_to_is_gone"),
    ),
    Mutation(
        "a stranded run is blocked at the second look", _BUILDS,
        "if run_key not in seen:", "if False:",
        _suite("of_stranded_runs_those_seen_before_are_blocked"),
    ),
    Mutation(
        "drift leaves a run to other builds", "runtime/endings.py",
        "if not drift.is_misfit(error) or (run.cancel_request is not None and not undoing.is_pending(run)):",
        "if True:",
        "engine/test_builds.py::test_what_drifts_under_one_build_is_completed_by_another[sqlite]",
    ),
    Mutation(
        "who executes a single run serves nobody else", "runtime/worker.py",
        "served = () if self._only else self._routes", "served = self._routes",
        "engine/test_builds.py::test_one_who_runs_a_single_run_is_nobody_to_leave_others_to[sqlite]",
    ),
    Mutation(
        "who executes a single run goes on with the children that were started before", "runtime/worker.py",
        "if self._only and row.status is Status.WAITING:", "if False:",
        "engine/test_children.py::test_the_same_call_goes_on_with_children_that_wait_for_their_code[sqlite]",
    ),
    Mutation(
        "a run that goes on as a new one is found with its first input", "operations/verbs.py",
        "if payloads.generation(first) > 1 and await", "if False and await",
        "engine/test_continuing.py::test_the_call_that_began_it_finds_it_whichever_life_it_is_in[sqlite]",
    ),
    # -- crashes and liveness
    Mutation(
        "a run that keeps killing its workers is blocked", _RECLAIM,
        "blocked = counts and total >= cap and", "blocked = False and",
        _suite("crashes_without_progress_are_counted_until_the_run_is_blocked"),
    ),
    Mutation(
        "progress wipes the count of crashes", _RECLAIM,
        "total = 0 if progress else crashes + counts", "total = crashes + counts",
        _suite("progress_wipes_the_count"),
    ),
    Mutation(
        "a worker holds one suspect at most", "store/sqlite/claims.py",
        "if not suspects or _holds_suspect(cursor, worker_key):", "if not suspects:",
        _suite("a_worker_is_given_one_suspect_at_a_time"),
    ),
    Mutation(
        "whoever holds a suspect looks for the next one at its end", "store/queueing.py",
        "is_limited=bool(limited) or suspect", "is_limited=bool(limited)",
        _suite("a_worker_is_given_one_suspect_at_a_time"),
    ),
    Mutation(
        "a crash is laid to the suspect", _RECLAIM,
        "counts = crashed and (not suspect_held or crashes >= SUSPECT)", "counts = crashed",
        _suite("a_crash_is_laid_to_the_suspect_and_not_to_its_neighbours"),
    ),
    Mutation(
        "who shows life keeps its runs", _RECLAIM,
        "if not stopped and sign is not None and shown != sign:", "if False:",
        _suite("who_shows_life_after_it_was_taken_for_dead_keeps_its_runs"),
    ),
    Mutation(
        "no body begins in doubt", "runtime/heartbeat.py",
        " and not self._doubtful(self._key)", "",
        _PROMISES + "no_body_begins_while_others_may_take_its_worker_for_dead",
    ),
    Mutation(
        "what a worker that stopped left behind is no crash", _RECLAIM,
        "crashed = not stopped", "crashed = True",
        _suite("what_a_retired_worker_left_is_taken_and_no_crash_is_counted"),
    ),
    Mutation(
        "a worker that drains says so first", "runtime/worker.py",
        "        if self.running:\n            await self._leave()\n", "",
        _INTERLEAVINGS + "a_worker_killed_while_it_drains_counts_as_no_crash",
    ),
    Mutation(
        "a held lock under a live lease is alive", "store/sqlite/liveness.py",
        "elif lock is Lock.HELD and ended:", "elif lock is Lock.HELD:",
        "store/test_liveness.py::test_a_held_lock_under_a_live_lease_is_alive_however_long_its_beat_stands_still"
        "[sqlite]",
    ),
    Mutation(
        "a frozen worker gets its grace", "store/sqlite/liveness.py",
        "if so_far >= grace:", "if True:",
        "store/test_liveness.py::test_a_stopped_worker_is_dead_only_after_a_grace_with_the_same_beat[sqlite]",
    ),
    Mutation(
        "a free lock is death at once", "store/sqlite/liveness.py",
        "if lock is Lock.FREE or", "if (lock is Lock.FREE and ended) or",
        "store/test_liveness.py::test_a_killed_worker_is_dead_before_its_lease_ends[sqlite]",
    ),
    Mutation(
        "a lock file that was replaced proves nothing", "store/sqlite/sidecar.py",
        'if mark != f"{file[0]}:{file[1]}":', "if False:",
        "store/test_liveness.py::test_a_lock_file_that_was_replaced_proves_nothing",
    ),
    Mutation(
        "locks of a server that was started since prove nothing", "store/postgres/liveness.py",
        'if worker.session == "" or worker.server != worker.up_since:', 'if worker.session == "":',
        "store/test_postgres_liveness.py::test_where_the_lock_says_nothing_only_the_lease_counts[sight0]",
    ),
    # -- changed code
    Mutation(
        "a patch applies only where no run has been before", "runtime/code_view.py",
        "= not run.replay.trodden or self._is_of_now(code)", "= True",
        _PATCHES + "a_run_that_was_there_before_keeps_the_old_code_wherever_it_is_cut",
    ),
    Mutation(
        "a patch applies where a new outcome has led", _RUN,
        "replay.trodden = replay.delivered != told", "replay.trodden = True",
        _PATCHES + "a_run_that_had_not_come_so_far_takes_the_new_code",
    ),
    Mutation(
        "the answer to a patch is recorded", "model/replay.py",
        "self.patches[patch_name(key)] = None", "pass",
        _PATCHES + "the_answer_stays_wherever_the_run_is_cut[new]",
    ),
    Mutation(
        "that a build is the same tells nothing of code it does not cover", "runtime/code_view.py",
        " and code in run.definition.codes", "",
        _PATCHES + "a_run_that_was_there_before_keeps_the_old_code_wherever_it_is_cut",
    ),
    Mutation(
        "a run that died before its mark was on disk takes the new code again", "runtime/code_view.py",
        " or self._is_of_now(code)", "",
        _PATCHES + "a_crash_anywhere_leaves_a_new_run_with_the_new_code[asks_first]",
    ),
    Mutation(
        "the replay tool stands where the next claim would", "runtime/rehearsal.py",
        "    return [*events, chain.seal(", "    return list(events) or [chain.seal(",
        _PATCHES + "a_replay_of_a_whole_log_answers_as_the_run_did[old-new]",
    ),
    Mutation(
        "what an upcast returns is validated", "model/upcasting.py",
        'return super().decode(to_json(value, by_alias=False, inf_nan_mode="constants"))', "return value",
        "model/test_upcasting.py::test_what_cannot_be_made_to_fit_is_undecodable_and_says_both[another type]",
    ),
    Mutation(
        "an upcast is part of the build", "model/builds.py",
        "            yield self._told(upcast)\n", "            pass\n",
        "definitions/test_builds.py::test_what_a_workflow_reaches_changes_it[change12]",
    ),
    Mutation(
        "drift blocks unless an engine is told to warn", "runtime/drift.py",
        'if run.host.on_drift == "warn":', "if True:",
        "runtime/test_drift.py::test_other_arguments_block_the_run",
    ),
    # -- forks, and what is done to many
    Mutation(
        "what is damaged is not copied into a fork", "store/copying.py",
        "chain.check(self._uid, page, after=self._read)", "pass",
        "store/test_forking.py::test_a_log_that_was_changed_is_not_copied"
        "[sqlite-update events set took = 5 where seq = 1200]",
    ),
    Mutation(
        "a fork draws by chance what its origin drew", "model/forking.py",
        "(forked.seed, forked.keys or uid)", "(uid, forked.keys or uid)",
        _FORK + "what_is_drawn_by_chance_is_as_in_the_origin[sqlite]",
    ),
    Mutation(
        "a fork goes through sets as its origin did", _RUN,
        "sha256(self.seed)", "sha256(self.uid)",
        _FORK + "sets_are_gone_through_as_in_the_origin[sqlite]",
    ),
    Mutation(
        "a fork has idempotency keys of its own", "model/forking.py",
        "(forked.seed, forked.keys or uid)", "(forked.seed, forked.keys or forked.seed)",
        _FORK + "what_comes_before_the_step_is_kept_and_the_rest_is_done_anew[sqlite-work#2]",
    ),
    Mutation(
        "what had begun in the origin only has not begun in its fork", "model/replay.py",
        "state.base = state.last = max(state.last, state.started)", "state.base = state.last",
        _FORK + "what_must_begin_once_only_has_not_begun_in_the_fork[sqlite]",
    ),
    Mutation(
        "the time between origin and fork does not count", "model/replay.py",
        "self.pauses[forked.seq] = forked.at - copied_at", "pass",
        _FORK + "the_time_since_the_copy_does_not_count[sqlite]",
    ),
    Mutation(
        "a run id that is taken is no fork of ours", "operations/forking.py",
        "if there != wanted:", "if there is None:",
        _FORK + "the_same_fork_is_made_once_and_another_is_refused[sqlite]",
    ),
    Mutation(
        "one run that fails stops no other", "operations/bulk.py",
        "except Exception as error:", "except PermissionError as error:",
        "engine/test_bulk.py::test_one_that_fails_stops_no_other[sqlite]",
    ),
    Mutation(
        "a run is found by all of its tags", "store/sqlite/listing.py",
        "json.dumps(where.tags) if where.tags else None", "json.dumps(where.tags[:1]) if where.tags else None",
        _suite("runs_are_found_by_all_of_their_tags"),
    ),
    # -- what others give
    Mutation(
        "a reason may be any text", _COMMIT,
        "None if state.reason is None else storable(state.reason)", "state.reason",
        _suite("a_reason_may_be_any_text"),
    ),
    Mutation(
        "who only reads leaves a server that takes no writes", "store/postgres/connection.py",
        'if session.fetch_value("is_read_only"):', "if False:",
        "crash/test_failover.py::test_nobody_stays_with_a_primary_that_was_demoted_and_still_answers",
        slow=True,
    ),
    *INTEGRITY,
    *KEEPING,
    *KIT,
    *LISTING,
    *MESSAGES,
    *OBSERVING,
    *OUTBOXES,
    *POWER,
    *QUEUES,
    *CODING,
    *CONTRIB,
    *DIAGNOSIS,
    *SCHEDULES,
    *TALKING,
    *TRANSACTIONS,
    *UNDOING,
    *WATCHING,
    *WEB,
]  # fmt: skip
