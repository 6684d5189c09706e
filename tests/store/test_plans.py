"""What a query costs must not depend on rows it does not return."""

from __future__ import annotations

import re

import pytest

from perdure.model.records import Status
from perdure.store.protocol import Filter, Route
from perdure.store.sqlite.sql import QUERIES

pytestmark = pytest.mark.only("sqlite")

PLANNED = sorted(name for name, sql in QUERIES.items() if re.match(r"SELECT|INSERT|UPDATE|DELETE|WITH", sql))
SORTED = {"unread", "held_of_queues", "held_of_routes", "list_queues", "latest_blocked", "read_keys"}
"""What sorts only as many rows as are held or blocked, or queues, or keys."""
SURVEYED = {"longest_of_status", "most_unread", "unused_artifacts"}
"""What a person asks for now and then: up to a bound, or with ``perdure doctor --deep`` only."""
BIG = r"SCAN (runs|events|inbox|artifacts|artifact_uses|schedules|occurrences|tags|tombstones|r|e|i|s|o|t|u|a)\b"


def plan(bench, name):
    with bench.store._reader as cursor:
        bindings = {str(number): 1 for number in range(1, 30)}
        return [row[3] for row in cursor.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", bindings).fetchall()]


@pytest.mark.parametrize("name", [name for name in PLANNED if name not in SURVEYED])
def test_no_query_walks_through_a_big_table(name, bench):
    assert [line for line in plan(bench, name) if re.match(BIG, line)] == []
    assert not any("TEMP B-TREE" in line for line in plan(bench, name) if name not in SORTED)


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("claim_refused", "runs_refused (route=? AND refused=? AND rank>?)"),
        ("refused_ready", "runs_refused (route=? AND refused=? AND rank>?)"),
        ("any_claimable", "runs_refused (route=? AND refused=? AND rank>?)"),
        ("living_builds", "worker_routes_route (route=?)"),
        ("claim_ready", "runs_ready (route=? AND rank>?)"), ("claim_suspect", "runs_suspect (route=? AND rank>?)"),
        ("promote_due", "runs_due (route=? AND wake_at<?)"), ("next_due", "runs_due (route=? AND wake_at>?)"),
        ("next_due", "runs_suspect (route=? AND rank>?)"),
        ("any_claimable", "runs_due (route=? AND wake_at<?)"), ("any_claimable", "runs_ready (route=? AND rank>?)"),
        ("count_ready", "runs_ready (route=? AND rank>?)"), ("count_ready", "runs_refused (route=?"),
        ("held", "runs_held (worker_key=?)"), ("held_in_full", "runs_held (worker_key=?)"),
        ("unread", "runs_held (worker_key=?)"), ("list_holders", "runs_held (worker_key>?)"),
        ("list_by_creation", "runs_listed (route=? AND status=? AND created_at>? AND created_at<?)"),
        ("list_by_end", "runs_ended (route=? AND status=? AND ended_at>? AND ended_at<?)"),
        ("list_by_error", "runs_error (route=? AND error=? AND created_at>? AND created_at<?)"),
        ("list_by_parent", "runs_child (parent_key=? AND created_at>? AND created_at<?)"),
        ("list_by_creation", "o USING PRIMARY KEY (name=? AND value=? AND run_key=?)"),
        ("list_of_tag", "t USING PRIMARY KEY (name=? AND value=?)"),
        ("list_of_prefix", "sqlite_autoindex_runs_1 (namespace=? AND run_id>? AND run_id<?)"),
        ("count_by_creation", "COVERING INDEX runs_listed (route=? AND status=? AND created_at>? AND created_at<?)"),
        ("count_by_end", "COVERING INDEX runs_ended (route=? AND status=? AND ended_at>? AND ended_at<?)"),
        ("count_prefix", "COVERING INDEX sqlite_autoindex_runs_1 (namespace=? AND run_id>? AND run_id<?)"),
        ("heads_by_creation", "COVERING INDEX runs_listed (route=? AND status=? AND created_at<?)"),
        ("heads_by_end", "COVERING INDEX runs_ended (route=? AND status=? AND ended_at<?)"),
        ("created_in_buckets", "COVERING INDEX runs_listed (route=? AND status=? AND created_at>? AND created_at<?)"),
        ("ended_in_buckets", "COVERING INDEX runs_ended (route=? AND status=? AND ended_at>? AND ended_at<?)"),
        ("sample_ended", "COVERING INDEX runs_ended (route=? AND status=? AND ended_at>? AND ended_at<?)"),
        ("count_of_status", "runs_listed (route=? AND status=?)"), ("urgent", "runs_ready (route=? AND rank<?)"),
        ("urgent_refused", "runs_refused (route=? AND refused=? AND rank<?)"),
        ("unread", "inbox_run (run_key=? AND kind>?)"), ("find_cancel", "inbox_run (run_key=? AND kind=?)"),
        ("hearer_by_id", "sqlite_autoindex_runs_1 (namespace=? AND run_id=?)"),
        ("is_posted", "inbox_dedup (run_key=? AND name=? AND dedup=?)"),
        ("drop_requests", "inbox_run (run_key=? AND kind=?)"), ("release", "inbox_run (run_key=? AND kind=?)"),
        ("empty_inbox", "inbox_run (run_key=?)"), ("move_inbox", "inbox_run (run_key=?)"),
        ("take_inbox", "INTEGER PRIMARY KEY (rowid=?)"), ("keep_taken", "INTEGER PRIMARY KEY (rowid=?)"),
        ("count_tag", "PRIMARY KEY (name=? AND value=?)"),
        ("last_event", "sqlite_autoindex_events_1 (run_key=?)"),
        ("read_events", "sqlite_autoindex_events_1 (run_key=? AND seq>?)"),
        ("list_ended", "runs_ended (route=? AND status=? AND ended_at>? AND ended_at<?)"),
        ("list_remains", "COVERING INDEX tombstones_rest (rest=?)"), ("rest_in_peace", "tombstones_run (run_key=?)"),
        ("create_runs", "tombstones USING PRIMARY KEY (namespace=? AND run_id=?)"),
        ("create_runs", "tombstones USING COVERING INDEX tombstones_idem (namespace=? AND idem=?)"),
        ("collect_events", "COVERING INDEX sqlite_autoindex_events_1 (run_key=?)"),
        ("collect_inbox", "inbox_run (run_key=?)"), ("list_uses", "u USING PRIMARY KEY (run_key=?)"),
        ("drop_artifact", "COVERING INDEX artifact_uses_hash (hash=?)"),
        ("find_tombstone", "tombstones_idem (namespace=? AND idem=?)"),
        ("forget_purged", "tombstones_aged (namespace=? AND purged_at<?)"),
        ("due_schedules", "schedules_due (route=? AND next_at>? AND next_at<?)"),
        ("next_firing", "schedules_due (route=? AND next_at>?)"),
        ("ready_schedules", "schedules_waiting (route=?)"), ("next_firing", "schedules_waiting (route=?)"),
    ],
    ids=str,
)  # fmt: skip
def test_hot_queries_use_the_index_made_for_them(name, index, bench):
    assert any(index in line for line in plan(bench, name)), plan(bench, name)


def test_a_claim_costs_the_same_behind_any_number_of_other_runs(bench):
    worker = bench.worker()
    steps = 0

    def count():
        nonlocal steps
        steps += 1
        return False

    def cost():
        nonlocal steps
        bench.create_many(5, f"mine-{steps}")
        steps = 0
        assert len(bench.claim(worker, 5)) == 5
        assert bench.store.next_due([Route("greet")]).due == far
        assert len(bench.store.held(worker)) >= 5
        assert len(bench.store.list_runs(Filter(limit=5))) == 5
        running = (Status.RUNNING,)
        for where in ({"status": running}, {"workflow": "greet"}, {"id_prefix": "mine"}, {"created_after": 0}):
            assert len(bench.store.list_runs(Filter(limit=5, **where))) == 5
        assert bench.store.count_runs(Filter(workflow="greet", version="none")) == []
        return steps

    far = bench.store.now() + 10**12
    bench.create("far", delay_until=far)
    for link in (bench.store._writer, bench.store._reader):
        with link as cursor:
            cursor.connection.set_progress_handler(count, 10)
    cost()
    alone = cost()
    crowd = [bench.new(f"foreign-{number}", workflow="other") for number in range(2000)]
    crowd += [bench.new(f"tenant-{number}", namespace="other") for number in range(2000)]
    crowd += [bench.new(f"due-{number}", workflow="other", delay_until=1) for number in range(500)]
    crowd += [bench.new(f"far-{number}", delay_until=far + number) for number in range(2000)]
    bench.store.create_runs(crowd)
    others = bench.worker()
    for claim in bench.store.claim_runs(others, [Route("other")], 500):
        bench.store.request_cancel(claim.row.run_key, "history")
    assert cost() < 1.5 * alone
    new = bench.worker(build="new")
    bench.create_many(500, "refused")
    for claim in bench.claim(worker, 500):
        bench.store.refuse_run(claim.row.run_key, claim.row.epoch, "", b"{}")
    assert cost() < 2 * alone
    assert len(bench.claim(new, 500)) == 500
