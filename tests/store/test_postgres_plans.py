"""What a query costs on PostgreSQL must not depend on rows it does not return, whatever the planner knows of them."""

from __future__ import annotations

import re

import pytest
from psycopg import RawCursor

from benchmarks.plans import walked
from perdure.model.payloads import note
from perdure.model.records import FORMAT
from perdure.store.open import open_store
from perdure.store.postgres.arrays import bigints
from perdure.store.postgres.session import Session
from perdure.store.postgres.sql import QUERIES
from perdure.store.protocol import PAGE, Route
from perdure.testing.store_suite import Bench

pytestmark = pytest.mark.postgres

PLANNED = sorted(
    name for name, sql in QUERIES.items() if re.search(r"\{schema\}", sql) and not re.match(r"CREATE|LISTEN", sql)
)
CROWD = 3000
SURVEYED = {"held_of_workers", "most_unread", "unused_artifacts"}
"""What a person asks for now and then: as much as is held, up to a bound, or with ``perdure doctor --deep`` only."""

INDEXES = [
    ("look_for_claims", "Index Only Scan using runs_ready|Index Scan using runs_ready"),
    ("look_for_claims", "runs_refused"),
    ("look_for_claims", "runs_due"),
    ("look_for_claims", "runs_suspect"),
    ("claim_ready", "Index Scan using runs_ready"),
    ("claim_refused", "Index Scan using runs_refused"),
    ("claim_suspect", "Index Scan using runs_suspect"),
    ("claim_one", "runs_pkey"),
    ("promote_due", "Index Scan using runs_due"),
    ("next_due", "runs_due"),
    ("next_due", "runs_suspect"),
    ("held", "runs_held"),
    ("held_among", "runs_(held|pkey)"),
    ("held_by_dead", "runs_held"),
    ("count_held", "runs_held"),
    ("held_rows", "runs_held"),
    ("list_holders", "runs_held"),
    ("unread", "runs_held"),
    ("refused_ready", "runs_refused"),
    ("list_by_creation", "Index Scan Backward using runs_listed"),
    ("list_by_creation", "Index Only Scan using tags_pkey on tags o"),
    ("list_by_end", "Index Scan Backward using runs_ended"),
    ("list_by_error", "Index Scan Backward using runs_error"),
    ("list_by_parent", "Index Scan Backward using runs_child"),
    ("list_of_tag", "Index Only Scan using tags_pkey"),
    ("list_of_tag", "Index Scan using runs_pkey"),
    ("list_of_prefix", "Index Scan using runs_namespace_run_id_key"),
    ("count_list_by_creation", "Index Scan Backward using runs_listed"),
    ("count_list_by_end", "Index Scan Backward using runs_ended"),
    ("count_list_by_error", "Index Scan Backward using runs_error"),
    ("count_list_by_parent", "Index Scan Backward using runs_child"),
    ("count_list_of_tag", "Index Only Scan using tags_pkey"),
    ("count_list_of_prefix", "Index Scan using runs_namespace_run_id_key"),
    ("count_by_creation", "Index Only Scan using runs_listed"),
    ("count_by_end", "Index Only Scan using runs_ended"),
    ("count_prefix", "Index Only Scan using runs_namespace_run_id_key"),
    ("created_in_buckets", "Index Only Scan using runs_listed"),
    ("ended_in_buckets", "Index Only Scan using runs_ended"),
    ("sample_ended", "Index Only Scan using runs_ended"),
    ("count_of_status", "Index Only Scan using runs_listed"),
    ("urgent", "Index Scan using runs_ready"),
    ("urgent", "Index Scan using runs_refused"),
    ("lock_runs", "runs_pkey"),
    ("hearers", "runs_pkey"),
    ("find_keys", "Index Scan using runs_namespace_run_id_key"),
    ("posted", "Index Only Scan using inbox_dedup"),
    ("post", "Index Scan using runs_pkey"),
    ("unread", "Index Scan using inbox_run"),
    ("find_cancel", "inbox_run"),
    ("take_inbox", "inbox_pkey"),
    ("move_inbox", "inbox_run"),
    ("drop_requests", "inbox_run"),
    ("count_tag", "Index Only Scan using tags_pkey"),
    ("last_events", "Index Scan Backward using events_pkey"),
    ("due_schedules", "Index Scan using schedules_due"),
    ("next_firing", "schedules_due"),
    ("next_firing", "schedules_waiting"),
    ("ready_schedules", "schedules_waiting"),
    ("queue_counts", "runs_ready"),
    ("queue_counts", "runs_refused"),
    ("read_events", "Index Scan using events_pkey"),
    ("read_logs", "Index Scan using events_pkey"),
    ("append_event", "Index Only Scan Backward using events_pkey"),
    ("append_items", "Index Only Scan Backward using events_pkey"),
    ("commit_items", "Index Only Scan Backward using events_pkey"),
    ("commit_items", "Index Scan using runs_pkey"),
    ("list_ended", "Index Scan using runs_ended"),
    ("list_remains", "Index Scan using tombstones_rest"),
    ("create_runs", "tombstones_pkey"),
    ("create_runs", "tombstones_idem"),
    ("collect_events", "Index Scan Backward using events_pkey"),
    ("collect_events", "Tid Scan on events"),
    ("collect_inbox", "inbox_run"),
    ("lock_artifacts", "artifact_uses_pkey"),
    ("lock_artifacts", "artifacts_pkey"),
    ("drop_uses", "artifact_uses_pkey"),
    ("drop_artifacts", "artifact_uses_hash"),
    ("find_purgeable", "runs_pkey"),
    ("bury_runs", "runs_pkey"),
    ("delete_rows", "runs_pkey"),
    ("only_rows_left", "events_pkey"),
    ("only_rows_left", "tombstones_run"),
    ("rest_in_peace", "tombstones_run"),
    ("find_tombstone", "tombstones_idem"),
    ("forget_purged", "tombstones_aged"),
]


def plan(bench, name):
    """How a query is executed whatever its values are: as the store executes it."""
    sql = QUERIES[name]
    texts = bench.store._writer._connector.texts
    count = max((int(number) for number in re.findall(r"\$(\d+)", sql)), default=0)
    values = f"({', '.join(['NULL'] * count)})" if count else ""

    def explain(session):
        session.script(b"PREPARE planned AS " + texts[name])
        try:
            rows = RawCursor(session.connection).execute(f"EXPLAIN (COSTS OFF) EXECUTE planned{values}".encode())
            return "\n".join(row[0] for row in rows)
        finally:
            session.script(b"DEALLOCATE planned")

    return bench.store._writer.read(explain)


def fill(bench):
    """Many runs in every state, and a planner that knows it."""
    worker = bench.worker()
    far = bench.store.now() + 10**12
    bench.store.create_runs([bench.new(f"foreign-{number}", workflow="other") for number in range(CROWD)])
    meta = note(tags={"env": "prod"})
    far_runs = [bench.new(f"far-{number}", delay_until=far + number, meta=meta) for number in range(CROWD)]
    bench.store.create_runs(far_runs)
    for claim in bench.store.claim_runs(worker, [Route("other")], CROWD // 2):
        bench.store.request_cancel(claim.row.run_key, "history")
    schema = bench.store._writer._connector.address.schema
    for table in ("runs", "events", "inbox", "workers", "tags"):
        text = f'VACUUM (ANALYZE) "{schema}".{table}'.encode()
        bench.store._writer.read(lambda session, text=text: session.script(text))


@pytest.fixture(scope="module")
def full(postgres_base):
    import os

    import psycopg

    from tests.servers.fixtures import with_schema

    schema = f"test_{os.urandom(5).hex()}"
    bench = Bench(lambda: open_store(with_schema(postgres_base, schema), durability="process"))
    with bench.store:  # thousands of logs are not looked at again
        fill(bench)
        yield bench
    with psycopg.connect(postgres_base, autocommit=True) as connection:
        connection.execute("SET client_min_messages = error")
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def empty(made_schema):
    address = made_schema()
    bench = Bench(lambda: open_store(address, durability="process"))
    with bench.store:
        yield bench


def test_no_query_walks_through_a_big_table(full):
    found = {name: walked(plan(full, name)) for name in PLANNED if name not in SURVEYED}
    assert {name: scans for name, scans in found.items() if scans} == {}


def test_no_plan_made_in_an_empty_store_does_either(empty):
    found = {name: walked(plan(empty, name)) for name in PLANNED if name not in SURVEYED}
    assert {name: scans for name, scans in found.items() if scans} == {}


def test_hot_queries_use_the_index_made_for_them(full):
    plans = {name: plan(full, name) for name, _ in INDEXES}
    assert [plans[name] for name, index in INDEXES if not re.search(index, plans[name])] == []


def test_hot_queries_use_it_also_where_there_is_nothing_yet(empty):
    plans = {name: plan(empty, name) for name, _ in INDEXES}
    assert [(name, index) for name, index in INDEXES if not re.search(index.split(" ")[-1], plans[name])] == []


def test_a_claim_costs_the_same_behind_any_number_of_other_runs(empty):
    bench = empty
    worker = bench.worker()

    def cost():
        """Pages that a claim of five runs touches."""
        bench.create_many(5, f"mine-{bench.store.now()}")
        routes = bigints(bench.store._numbers([Route("greet")]))

        def claim(session):
            texts = bench.store._writer._connector.texts
            touched = 0
            for name, values in (
                ("look_for_claims", (routes, None, worker)),
                ("claim_ready", (routes, 5, FORMAT, worker, PAGE)),
                ("next_due", (routes,)),
            ):
                explained = {name: b"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) " + texts[name]}
                lines = Session(session.connection, explained, prepares=False).fetch(name, *values)
                whole = next(line for (line,) in lines if "Buffers:" in line)
                touched += sum(map(int, re.findall(r"(?:hit|read)=(\d+)", whole)))
            return touched

        pages = bench.store._writer.write(claim)
        assert len(bench.claim(worker, 5)) == 5
        return pages

    cost()
    alone = cost()
    fill(bench)
    assert cost() < 2 * alone
