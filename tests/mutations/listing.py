"""The protections of lists, numbers and traffic; part of the table."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_SQLITE, _SQL = "store/sqlite/listing.py", "store/sqlite/queries/listing.sql"
_SUITE = "store/test_suite.py::test_store[sqlite-"
_MEANT = _SUITE + "lists_and_numbers_are_those_that_are_meant_whatever_is_asked_for]"
_MANY = _SUITE + "what_begins_as_many_ids_do_is_found_just_the_same]"
_ENGINE = "engine/test_listing.py::test_"

LISTING = [
    Mutation(
        "what is asked for beside what the index has is looked at", _SQL,
        "(?7 IS NULL OR (r.run_id >= ?7 AND r.run_id < ?8))", "TRUE", _MANY,
    ),
    Mutation(
        "pages go on after the last run, not after its instant", _SQL,
        "WHERE r.route = ?5 AND r.status = ?6 AND (r.created_at, r.run_key) < (?1, ?2) AND r.created_at >= ?3\n"
        "  AND {narrowed}\nORDER",
        "WHERE r.route = ?5 AND r.status = ?6 AND r.created_at < ?1 AND r.created_at >= ?3\n"
        "  AND {narrowed} AND ?2\nORDER",
        _MEANT,
    ),
    Mutation(
        "runs of other statuses and routes that are as new are looked for", _SQLITE,
        "since = best[-1][0]", "since = best[0][0]", _MEANT,
    ),
    Mutation(
        "a range is without its end", _SQL,
        "route = ?1 AND status = ?2 AND created_at >= ?3 AND created_at < ?4",
        "route = ?1 AND status = ?2 AND created_at >= ?3 AND created_at <= ?4",
        _MEANT,
    ),
    Mutation(
        "an error is that of a run's state", "store/sqlite/migrations/0001_initial.sql",
        "error       TEXT AS (CASE WHEN status IN (5, 7, 9)", "error       TEXT AS (CASE WHEN status IN (5, 7, 9, 10)",
        _SUITE + "the_error_of_a_run_goes_with_its_state]",
    ),
    Mutation(
        "numbers that stop at a bound say so", "operations/listing.py",
        "< most or self._is_counted_by_index()", "<= most or self._is_counted_by_index()",
        _ENGINE + "runs_are_found_by_what_stopped_them_and_by_when_and_counted[sqlite]",
    ),
    Mutation(
        "a cursor is of one kind of list", "model/places.py",
        'or (match[1] == "e") is not by_end', "",
        _ENGINE + "cursors_of_other_lists_and_pages_of_nothing_are_refused[sqlite]",
    ),
    Mutation(
        "a run that puts a step off says what for", "runtime/resting.py",
        'said["reason"] = reason = _put_off_by(run)', "pass",
        _ENGINE + "runs_are_found_by_what_stopped_them_and_by_when_and_counted[sqlite]",
    ),
    Mutation(
        "a bucket is without its end", _SQL,
        "AND created_at >= b.value ->> 0 AND created_at < b.value ->> 1",
        "AND created_at >= b.value ->> 0 AND created_at <= b.value ->> 1",
        _SUITE + "what_became_of_runs_is_told_by_time]",
    ),
]  # fmt: skip
