"""The protections of transactional steps; part of the table."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_ROWS = "transactional/test_commits.py::test_"
_SOURCES = "transactional/test_sources.py::test_"
_KILLS = "transactional/test_kills.py::test_"
_TRANSACTING, _MEANING = "runtime/transacting.py", "model/transactions.py"

TRANSACTIONS = [
    Mutation(
        "a step whose outcome is committed in the user's database is not begun again",
        _MEANING,
        "    if row.outcome is not None:\n",
        "    if False:\n",
        _ROWS + "a_row_with_an_outcome_is_taken_for_the_steps_and_its_body_is_not_begun",
    ),
    Mutation(
        "who finds the marker of a later holder begins nothing",
        _MEANING,
        "return Meaning.FENCED if row.epoch > epoch else Meaning.MINE",
        "return Meaning.MINE",
        _ROWS + "a_row_that_does_not_fit_blocks_the_run_and_nothing_is_done[a-later-holder-while-the-run-is-ours]",
    ),
    Mutation(
        "an attempt that failed leaves a marker",
        _TRANSACTING,
        "                        return\n                    await transaction.commit()",
        "                        return",
        _SOURCES + "an_attempt_that_fails_leaves_a_marker_and_the_next_one_is_a_transaction_of_its_own[sqlite3]",
    ),
    Mutation(
        "after a failure the row is asked whether it is committed all the same",
        _TRANSACTING,
        "        await self._settle(source, failed)",
        "        raise failed",
        _ROWS + "a_commit_whose_answer_was_lost_is_found_to_be_there[async]",
    ),
    Mutation(
        "a committed row is only that of the same arguments",
        _TRANSACTING,
        "not call.step.arguments.same(recorded, found)",
        "False",
        _ROWS + "a_row_that_does_not_fit_blocks_the_run_and_nothing_is_done[other-arguments]",
    ),
    Mutation(
        "a changed row is found out",
        _TRANSACTING,
        "                if not is_whole(row, mark.id):",
        "                if False:",
        _ROWS + "a_row_that_does_not_fit_blocks_the_run_and_nothing_is_done[another-byte]",
    ),
    Mutation(
        "a cancelled call asks the row, also if it never began here",
        "runtime/calls.py",
        "            if self.step.transactional is None:",
        "            if True:",
        _KILLS + "a_step_that_was_cancelled_but_had_committed_when_its_process_died_is_recorded_as_completed[sqlite]",
    ),
    Mutation(
        "a fork that keeps its origin's keys asks the origin's row",
        _TRANSACTING,
        "        if run.key_uid == run.uid:",
        "        if True:",
        _SOURCES + "a_fork_does_the_step_anew_unless_it_keeps_its_origins_keys[sqlite3]",
    ),
    Mutation(
        "a body cannot commit its transaction",
        "transactional/files.py",
        "        if action == sqlite3.SQLITE_TRANSACTION:",
        "        if False:",
        _SOURCES + "a_body_that_ends_the_transaction_itself_fails_and_leaves_nothing[sqlite3-statement]",
    ),
    Mutation(
        "who has committed its own way is told by the row",
        "transactional/postgres/steps.sql",
        " AND xmin = pg_current_xact_id()::xid",
        "",
        _SOURCES + "a_body_that_ends_the_transaction_itself_fails_and_leaves_nothing[async-psycopg-statement]",
        slow=True,
    ),
    Mutation(
        "a later holder's failure fences who wakes up",
        _MEANING,
        "return Meaning.FENCED if row.epoch > epoch else Meaning.MINE",
        "return Meaning.MINE ",
        _KILLS + "who_wakes_up_after_the_step_has_failed_elsewhere_commits_nothing[sqlite-noting]",
        slow=True,
    ),
]
