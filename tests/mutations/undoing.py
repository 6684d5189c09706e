"""The protections of undoing, of handlers of failures and of deadlines; part of the table."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_SUITE = "store/test_suite.py::test_store[sqlite-"
_SAGA = "engine/test_saga.py::test_"
_RULES = "engine/test_saga_rules.py::test_"
_TOLD = "engine/test_on_failure.py::test_"
_DEADLINE = "engine/test_deadline.py::test_"
_CLEANUP = "engine/test_cleanup.py::test_"
_UNDOING, _AFTERMATH = "runtime/undoing.py", "runtime/aftermath.py"

UNDOING = [
    Mutation(
        "what was done last is undone first", _UNDOING,
        "            one = stack[-1]\n", "            one = stack[0]\n",
        _SAGA + "what_was_done_is_undone_in_reverse_and_then_the_failure_goes_on[sqlite-trip]",
    ),
    Mutation(
        "no cancellation reaches an undoing", _UNDOING,
        "            continue  # delivered where the cleaning up had begun: it ends as it would have",
        "            raise",
        _SAGA + "a_cancel_that_comes_while_a_failure_is_undone_interrupts_nothing_and_is_kept[sqlite]",
    ),
    Mutation(
        "what ends as a cancel comes is undone", "runtime/endings.py",
        "            run.undoing.keep_not()", "            pass",
        _SAGA + "a_cancel_that_comes_as_the_block_and_the_run_end_undoes[sqlite-trip]",
    ),
    Mutation(
        "that an undoing has begun is recorded once", _UNDOING,
        "if key not in run.replay.undone:", "if True:",
        _SAGA + "an_engine_that_stops_while_it_undoes_leaves_the_rest_to_the_next[sqlite]",
    ),
    Mutation(
        "a compensation that fails for good blocks the run", "runtime/resting.py",
        "if run.undoing is not None and run.undoing.failed:", "if False:",
        _SAGA + "a_compensation_that_fails_for_good_blocks_the_run_and_resume_tries_exactly_it_again[sqlite-failure]",
    ),
    Mutation(
        "a run blocked in its undoing stays blocked although it is cancelled", "runtime/endings.py",
        "and not (ending.status is Status.BLOCKED and undoing.is_pending(run))", "and True",
        _SAGA + "a_compensation_that_fails_for_good_blocks_the_run_and_resume_tries_exactly_it_again[sqlite-cancel]",
    ),
    Mutation(
        "a resume of a blocked run keeps its cancel", "operations/verbs.py",
        'kept: dict[str, object] = {} if row.status.terminal else {"keep": True}',
        "kept: dict[str, object] = {}",
        _SAGA + "a_compensation_that_fails_for_good_blocks_the_run_and_resume_tries_exactly_it_again[sqlite-cancel]",
    ),
    Mutation(
        "a resume of a paused run keeps its cancel", "model/replay.py",
        'keeps = names.get("keep") is True', "keeps = False",
        _CLEANUP + "a_run_that_is_paused_while_it_cleans_up_goes_on_cleaning_up[sqlite]",
    ),
    Mutation(
        "what has been undone is not resumed", "operations/verbs.py",
        "if row.status.terminal and view.undone:", "if False:",
        _SAGA + "a_run_that_has_undone_something_is_not_resumed_but_forked_from_before[sqlite]",
    ),
    Mutation(
        "a child that has undone something is not resumed by its parent", "runtime/reviving.py",
        "if view.undone and end is not None:", "if False:",
        _SAGA + "a_parent_that_is_resumed_hears_again_of_a_child_that_cannot_go_on[sqlite]",
    ),
    Mutation(
        "what is registered is undone also if the code can do nothing any more", _AFTERMATH,
        "left = undoing is not None and undoing.registered and ending.status in _ENDED", "left = False",
        _RULES + "what_was_done_is_undone_also_if_the_code_can_do_nothing_any_more[sqlite-waits_for_nothing]",
    ),
    Mutation(
        "the cleaning up of tasks that are left behind is not cancelled", "runtime/endings.py",
        "    if is_first:\n", "    if True:\n",
        _RULES + "a_task_that_is_left_behind_cleans_up_and_undoes_before_the_run_ends[sqlite]",
    ),
    Mutation(
        "what is registered is written with the commit it rides on", "store/sqlite/commit.py",
        "cursor.execute(_UNDO, (item.run_key, item.undo or None))", "pass",
        _SUITE + "what_is_registered_is_noted_with_the_commit_it_rides_on]",
    ),
    Mutation(
        "a run with something to undo is not ended for want of its code", "store/sqlite/control.py",
        "(run.undo is None and not run.can_clean_up(", "(not run.can_clean_up(",
        _SUITE + "a_run_with_something_to_undo_stays_asked_where_nobody_has_its_code]",
    ),
    Mutation(
        "a blocked run that is asked to end is not claimed before it is resumed", "store/sqlite/control.py",
        "if not run.held and run.status is not Status.BLOCKED:", "if not run.held:",
        _SUITE + "a_blocked_run_with_something_to_undo_is_asked_for_when_it_is_resumed]",
    ),
    Mutation(
        "a run that kills its workers is not cancelled with something left to undo", "store/sqlite/log.py",
        'return None if fetch(cursor, QUERIES["has_undo"], (run_key,)) else asked_to_cancel(cursor, run_key)',
        "return asked_to_cancel(cursor, run_key)",
        _SUITE + "a_run_that_is_to_be_cancelled_is_blocked_all_the_same_while_something_is_to_be_undone]",
    ),
    # -- handlers of failures
    Mutation(
        "a handler is not called for what is cancelled", _AFTERMATH,
        "handler = run.definition.on_failure if ending.status is Status.FAILED else None",
        "handler = run.definition.on_failure",
        _TOLD + "it_is_not_called_when_the_run_is_cancelled_or_blocked[sqlite]",
    ),
    Mutation(
        "no cancellation reaches a handler", _AFTERMATH,
        "await shielded(StepCall(run, handler, key, prepared))", "await StepCall(run, handler, key, prepared)",
        _TOLD + "a_cancel_that_comes_while_it_is_told_interrupts_nothing_and_is_kept[sqlite]",
    ),
    Mutation(
        "a failure of a handler hides nothing", _AFTERMATH,
        "    except BaseException as also:  # noqa: BLE001 - a body may raise anything",
        "    except SystemExit as also:",
        _TOLD + "its_own_failure_is_noted_and_hides_nothing[sqlite]",
    ),
    Mutation(
        "a handler is called again for another failure", "model/replay.py",
        "        self.failures += 1\n", "",
        _TOLD + "a_resume_that_fails_again_tells_again_and_under_another_key[sqlite]",
    ),
    # -- deadlines
    Mutation(
        "a deadline is heeded while a step is in flight", "runtime/run.py",
        "and not (self.retrying or loop.timers or self.stopping or self.waits is not None)",
        "and not (self.retrying or loop.timers or self.stopping)",
        _DEADLINE + "a_step_in_flight_is_cancelled_at_the_deadline[sqlite]",
    ),
    Mutation(
        "a run that waits is woken by its deadline", "runtime/waits.py",
        "if self.deadline is not None and run.cancel_reason is None and", "if False and",
        _DEADLINE + "a_run_that_waits_is_cancelled_at_its_deadline_and_undoes[sqlite-sleeping]",
    ),
    Mutation(
        "a deadline that has passed is none after a resume", "store/sqlite/queries/commit.sql",
        "deadline_at = CASE WHEN deadline_at > ?6 THEN deadline_at END", "deadline_at = deadline_at",
        _SUITE + "a_resume_lets_a_deadline_go_that_has_passed]",
    ),
]  # fmt: skip
