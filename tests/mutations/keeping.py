"""The protections of namespaces and of what is purged; part of the table."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_SQL, _RUNS = "store/sqlite/queries/purging.sql", "store/sqlite/queries/runs.sql"
_PURGING = "store/test_purging.py::test_"
_ENGINE = "engine/test_retention.py::test_"


def _suite(case: str) -> str:
    return f"store/test_suite.py::test_store[sqlite-{case}]"


KEEPING = [
    Mutation(
        "a purged id is not used again",
        _RUNS,
        "WHERE NOT EXISTS (SELECT 1 FROM tombstones WHERE namespace = ?2 AND run_id = ?3)\n  AND",
        "WHERE",
        _suite("a_purged_id_is_refused_and_not_begun_anew"),
    ),
    Mutation(
        "nor is a purged idempotency key",
        _RUNS,
        "  AND NOT EXISTS (SELECT 1 FROM tombstones WHERE namespace = ?2 AND idem = ?17)\n",
        "",
        _suite("a_purged_id_is_refused_and_not_begun_anew"),
    ),
    Mutation(
        "whoever was about to create a run finds it as long as it could be created",
        "store/postgres/purging.py",
        "_remains(session, LAST, instant - _STAYS)",
        "_remains(session, LAST, instant)",
        _PURGING + "who_was_about_to_create_a_run_as_it_was_purged_is_refused_all_the_same[postgres]",
    ),
    Mutation(
        "an artifact is locked before it is noted that it is used",
        "store/postgres/runs.py",
        'if len(session.fetch("hold_artifacts", hashes)) == len(each):',
        "if True:",
        _PURGING + "an_artifact_that_somebody_is_about_to_use_is_not_deleted[postgres]",
    ),
    Mutation(
        "a child is kept as long as its parent may go on",
        _SQL,
        "\n  AND (r.parent_key IS NULL OR NOT EXISTS (SELECT 1 FROM runs p "
        "WHERE p.run_key = r.parent_key AND p.status <> 8))",
        "",
        _suite("a_child_is_kept_until_its_parent_has_completed_or_gone"),
    ),
    Mutation(
        "a log is deleted from its end",
        _SQL,
        "WHERE run_key = ?1 ORDER BY seq DESC LIMIT ?2",
        "WHERE run_key = ?1 ORDER BY seq LIMIT ?2",
        _suite("a_long_log_is_deleted_piece_by_piece_from_its_end"),
    ),
    Mutation(
        "an artifact stays as long as anything refers to it",
        _SQL,
        "WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM artifact_uses u WHERE u.hash = ?1)",
        "WHERE hash = ?1",
        _suite("nothing_of_a_purged_run_is_left"),
    ),
    Mutation(
        "a tombstone stays as long as anything else does",
        _SQL,
        "WHERE namespace = ?1 AND rest = 0 AND purged_at < ?2",
        "WHERE namespace = ?1 AND purged_at < ?2",
        _suite("tombstones_are_forgotten_once_they_are_old_enough_and_alone"),
    ),
    Mutation(
        "a chore is one holder's at a time",
        _SQL,
        "WHERE chores.holder = excluded.holder OR chores.until",
        "WHERE chores.holder > 0 OR chores.until",
        _suite("a_chore_is_one_holders_until_it_gives_it_back_or_its_time_is_over"),
    ),
    Mutation(
        "who waits for a run is told that it was purged",
        "lookout.py",
        "        for key, row in found:\n            self._over(key, row)",
        "        for key, row in found:\n            if row is not None:\n                self._over(key, row)",
        _ENGINE + "who_waits_is_told_also_if_the_run_is_purged_before_anybody_looks[sqlite]",
    ),
    Mutation(
        "whoever reads a log that ends too soon asks whether the run is there",
        "operations/verbs.py",
        "if (found[-1].seq if found else after) < row.seq:",
        "if False:",
        _ENGINE + "who_reads_a_run_while_it_is_purged_is_told_so_and_sees_no_half_of_it[sqlite]",
    ),
    Mutation(
        "what a run sends stays in its namespace",
        "runtime/children.py",
        "message = message._replace(namespace=run.row.namespace)",
        "message = message._replace(namespace='')",
        "engine/test_namespaces.py::test_the_same_names_in_two_namespaces_are_different_things[sqlite]",
        slow=True,
    ),
]
