"""Protections of what says what is wrong."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_WHY = "diagnosis/test_why.py::test_"
_STATE = _WHY + "a_run_is_told_why_it_is_where_it_is[sqlite-"
_DOCTOR = "diagnosis/test_doctor.py::test_what_is_wrong_"

DIAGNOSIS = [
    Mutation(
        "a dead holder is told from a living one",
        "model/standing.py",
        'if self.lock == "free" or self.leased_until is None:',
        "if self.leased_until is None:",
        "diagnosis/test_explaining.py::test_a_worker_lives_as_its_lock_and_its_lease_say",
    ),
    Mutation(
        "who cannot be claimed from a paused queue is told so",
        "diagnosis/claiming.py",
        "if usage.row.paused:",
        "if False:",
        _STATE + "paused_queue]",
    ),
    Mutation(
        "children are not followed in circles",
        "diagnosis/looking.py",
        "if child is not None and child.run_key not in self._seen:",
        "if child is not None:",
        _WHY + "a_run_that_a_damaged_store_calls_its_own_child_is_explained[sqlite]",
    ),
    Mutation(
        "a run that was put off has not waited",
        "store/surveying.py",
        "[row.created_at, wake_at or 0]",
        "[row.created_at]",
        _DOCTOR + "in_a_store_is_found_and_nothing_else[sqlite-just_due]",
    ),
    Mutation(
        "a log that is held back is found",
        "diagnosis/sqlite.py",
        "behind = facts.log_pages - max(facts.copied_pages, 0)",
        "behind = 0",
        _DOCTOR + "with_a_file_is_found[sqlite-a_reader_that_does_not_end]",
    ),
]
