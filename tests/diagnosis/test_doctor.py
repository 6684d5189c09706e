"""What a store suffers from: each finding provoked on a store that really suffers from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner

from perdure.cli.main import cli
from perdure.diagnosis import Severity
from perdure.diagnosis.doctor import diagnose, doctor
from perdure.diagnosis.kinds import STORES
from perdure.model.condition import Condition, Contents, PostgresFacts, SqliteFacts, Table
from perdure.model.payloads import note
from perdure.model.queues import Limits, QueueRow
from perdure.model.records import InboxKind, Message, Status
from perdure.model.schedules import Policy, ScheduleChange, ScheduleRow, ScheduleState
from perdure.store.protocol import Route
from perdure.testing.store_suite import Holder
from perdure.testing.store_suite.bench import SECOND, soon
from tests.diagnosis.conftest import Ward
from tests.servers.behind import is_postgres, vandalise

MINUTE, HOUR = 60 * SECOND, 3600 * SECOND


def codes(report, *, at_least=Severity.OK):
    return sorted(one.code for one in report.findings if one.severity >= at_least)


def found(store, **options):
    report = doctor(store, **options)
    for one in report.findings:
        assert one.found
        assert "{" not in one.advice
        assert "secret" not in repr(one)
    return report


# -- what is in a store


def nothing(bench):
    bench.create("done", payload=b'"secret"')
    worker = bench.worker()
    (claim,) = bench.claim(worker)
    bench.store.commit([Holder(bench.store, worker, claim).end()])


def no_workers(bench):
    bench.create(payload=b'"secret"')


def runs_without_code(bench):
    bench.worker()
    bench.create(version="2")


def runs_that_wait(bench):
    bench.worker()
    bench.create(created_at=bench.store.now() - HOUR)


def just_due(bench):
    """A run that was created long ago, to begin only now, has not waited."""
    bench.worker()
    now = bench.store.now()
    bench.create(created_at=now - HOUR, delay_until=now - SECOND, origin=note(delay_until=now - SECOND))


def due_for_long(bench):
    bench.worker()
    holder = bench.hold()
    holder.commit(holder.suspend(wake_at=bench.store.now() - HOUR))


def crowded(bench):
    slow = Route("greet", queue="slow")
    worker = bench.worker(routes=[slow])
    bench.store.define_queues([QueueRow(0, "", "slow", Limits(concurrency=1))])
    bench.create("first", queue="slow")
    assert bench.store.claim_runs(worker, [slow], 1)
    bench.create(queue="slow", created_at=bench.store.now() - HOUR)


def paused(bench):
    bench.worker(routes=[Route("greet", queue="slow")])
    bench.create(queue="slow", created_at=bench.store.now() - HOUR)
    bench.store.pause_queue("slow", paused=True)


def late(bench):
    holder = bench.hold()
    bench.store.renew(holder.worker, -SECOND, 2)


def builds(bench):
    bench.worker(build="a")
    bench.worker(build="b")


def left_behind(bench):
    holder = bench.hold()
    vandalise(bench.address, "DELETE FROM workers WHERE worker_key = ?", holder.worker)


def blocked(bench):
    for run_id, payload in (("one", b'{"code":"drift","reason":"x"}'), ("two", b'{"reason":"y"}')):
        row = bench.create(run_id)
        assert bench.store.block_run(row.run_key, row.epoch, payload, "secret")


def overdue(bench):
    bench.worker()
    bench.create(deadline_at=bench.store.now() - 1)


def crashing(bench):
    bench.worker()
    row = bench.create()
    vandalise(bench.address, "UPDATE runs SET crashes = 3 WHERE run_key = ?", row.run_key)


def long_log(bench):
    holder = bench.hold()
    holder.commit(holder.suspend(wake_at=bench.store.now() + HOUR))
    vandalise(bench.address, "UPDATE runs SET seq = 10000 WHERE run_key = ?", holder.key)


def unread(bench):
    holder = bench.hold()
    news = Message(InboxKind.SIGNAL, holder.key, name="s", payload=b'"secret"')
    bench.store.deliver([news] * 1000)


def schedule(bench, **changes):
    now = bench.store.now()
    row = ScheduleRow(
        0, "", "nightly", "greet", "", "", ScheduleState.ACTIVE, 1, b"t", 1, "", now, now, now, now + HOUR, b"{}",
        Policy().encode(), b"{}", 0, b'"secret"', "[]", "[]", 0, None,
    )._replace(**changes)  # fmt: skip
    bench.store.change_schedules([ScheduleChange(row)])
    return bench.store.get_schedule("nightly").schedule_key


def faulty_schedule(bench):
    bench.store.fault_schedule(schedule(bench), "it has no code")


def late_schedule(bench):
    bench.worker()
    schedule(bench, next_at=bench.store.now() - HOUR)


def stopped_schedule(bench):
    schedule(bench, state=ScheduleState.PAUSED)


CONTENTS = [
    (nothing, []),
    (no_workers, ["no-workers"]),
    (runs_without_code, ["runs-without-code"]),
    (runs_that_wait, ["runs-wait"]),
    (just_due, []),
    (due_for_long, ["runs-wait"]),
    (crowded, ["queue-crowded"]),
    (paused, ["queue-stopped"]),
    (late, ["worker-late"]),
    (builds, ["builds-differ"]),
    (left_behind, ["worker-gone"]),
    (blocked, ["runs-blocked", "runs-blocked"]),
    (overdue, ["runs-overdue"]),
    (crashing, ["runs-crash"]),
    (long_log, ["log-long"]),
    (unread, ["news-unread"]),
    (faulty_schedule, ["schedule-fault"]),
    (late_schedule, ["schedule-late"]),
    (stopped_schedule, ["schedule-stopped"]),
]


@pytest.mark.parametrize(("make", "expected"), CONTENTS, ids=[make.__name__ for make, _ in CONTENTS])
def test_what_is_wrong_in_a_store_is_found_and_nothing_else(make, expected, bench, store):
    make(bench)
    report = found(store)
    assert codes(report) == expected, [one.found for one in report.findings]


# -- the database under it, on both


def newer(store, keep):
    if is_postgres(store):
        vandalise(store, "UPDATE store_info SET value = '9' WHERE name LIKE '%version'")
    else:
        vandalise(store, "PRAGMA user_version = 9")


def without_an_index(store, keep):
    vandalise(store, "DROP INDEX runs_ready")


# -- and on SQLite


def connection(store, keep):
    opened = apsw.Connection(store)
    keep(opened.close)
    return opened


def a_reader_that_does_not_end(store, keep):
    reader, writer = connection(store, keep), connection(store, keep)
    reader.execute("BEGIN; SELECT count(*) FROM runs").fetchall()
    writer.execute("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0")
    writer.execute("INSERT INTO artifacts VALUES (x'00', 1, zeroblob(45000000))")


def a_writer_that_does_not_end(store, keep):
    connection(store, keep).execute("BEGIN IMMEDIATE")


def no_log(store, keep):
    vandalise(store, "PRAGMA journal_mode = DELETE")


def open_to_all(store, keep):
    Path(store).chmod(0o644)
    folder = Path(store).parent
    mode = folder.stat().st_mode
    folder.chmod(0o777)
    keep(lambda: folder.chmod(mode))


def overwritten(store, keep):
    with Path(store).open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(size // 2)
        file.write(os.urandom(size // 4))


def of_another(store, keep):
    vandalise(store, "PRAGMA application_id = 7")


def emptied(store, keep):
    os.truncate(store, 0)


def a_lock_file_deleted(store, keep):
    bench = Ward(store)
    keep(lambda: bench.__exit__(ValueError, None, None))
    bench.worker()
    Path(f"{store}-lock").unlink()


def unused(store, keep):
    vandalise(store, "INSERT INTO artifacts VALUES (x'00', 1, x'00')")


DATABASES = [
    (newer, ["schema-newer"], Severity.BAD),
    (without_an_index, ["indexes-missing"], Severity.BAD),
    (unused, ["artifacts-unused"], Severity.NOTE),
]
FILES = [
    (a_reader_that_does_not_end, ["log-grows"], Severity.WARN),
    (a_writer_that_does_not_end, ["store-busy"], Severity.WARN),
    (no_log, ["journal-mode"], Severity.WARN),
    (open_to_all, ["directory-mode", "file-mode"], Severity.WARN),
    (overwritten, ["store-damaged"], Severity.BAD),
    (of_another, ["store-foreign"], Severity.BAD),
    (emptied, ["store-unreachable"], Severity.BAD),
    (a_lock_file_deleted, ["lock-file"], Severity.WARN),
]


@pytest.fixture
def keep():
    """Do something at the end of the test, the last first."""
    kept = []
    yield kept.append
    for close in reversed(kept):
        close()


@pytest.mark.parametrize(("make", "expected", "severity"), DATABASES, ids=[one[0].__name__ for one in DATABASES])
def test_what_is_wrong_with_a_database_is_found(make, expected, severity, store, keep):
    make(store, keep)
    report = found(store, deep=True)
    assert codes(report, at_least=severity) == expected, [one.found for one in report.findings]
    assert report.worst is severity


@pytest.mark.only("sqlite")
@pytest.mark.parametrize(("make", "expected", "severity"), FILES, ids=[one[0].__name__ for one in FILES])
def test_what_is_wrong_with_a_file_is_found(make, expected, severity, store, keep):
    make(store, keep)
    report = found(store, deep=True)
    assert sorted(set(codes(report, at_least=severity))) == expected, [one.found for one in report.findings]
    assert report.worst is severity


@pytest.mark.only("sqlite")
def test_a_second_sqlite_library_in_the_process_is_found(store):
    look = (
        "import sys, sqlite3; from perdure.diagnosis.doctor import doctor; "
        "print([one.code for one in doctor(sys.argv[1]).findings])"
    )
    told = subprocess.run([sys.executable, "-c", look, store], check=True, capture_output=True, text=True, timeout=20)
    assert told.stdout.strip() == "['second-library']"


# -- and on PostgreSQL


@pytest.mark.only("postgres")
def test_a_pooler_in_front_is_found(store, servers, ground):
    from tests.servers.made import Made

    made = Made(ground, servers.bouncer(ground.shared(), pool=4).port)
    try:
        assert codes(found(made.take())) == ["pooler"]
    finally:
        made.close()


@pytest.mark.only("postgres")
def test_sessions_that_hold_others_up_are_found(store):
    import psycopg

    from perdure.store.postgres.address import parse_address
    from perdure.store.postgres.examine import examine

    address = parse_address(store)
    with (
        psycopg.connect(address.conninfo, application_name="holds") as holds,
        psycopg.connect(address.conninfo, application_name="waits") as waits,
    ):
        holds.execute(f"LOCK TABLE {address.schema}.artifacts")
        waits.pgconn.send_query(f"BEGIN; LOCK TABLE {address.schema}.artifacts".encode())
        assert soon(lambda: examine(store, waited=0).database.waiting)
        condition = examine(store, long=0, waited=0)
        report = diagnose(condition)
        assert {one.program for one in condition.database.long} == {"holds", "waits"}
        assert codes(report) == ["locks-waited", "long-transaction", "long-transaction"]
        holds.rollback()
        while waits.pgconn.get_result() is not None:
            pass


@pytest.mark.only("postgres")
def test_what_can_be_had_is_told_while_a_table_is_locked(store):
    import psycopg

    from perdure.store.postgres.address import parse_address

    address = parse_address(store)
    with psycopg.connect(address.conninfo) as holds:
        holds.execute(f"LOCK TABLE {address.schema}.runs")
        report = found(store)
    assert codes(report) == ["store-busy"]
    assert report.condition.contents is None
    assert dict(report.condition.facts)["schema"] == address.schema


@pytest.mark.only("postgres")
def test_what_ends_idle_sessions_is_found(store):
    assert codes(found(f"{store}&options=-c%20idle_session_timeout%3D600000")) == ["idle-timeout"]


def test_a_server_that_is_not_there_is_told(store):
    report = found("postgresql://127.0.0.1:1/nowhere")
    assert codes(report) == ["store-unreachable"]
    assert report.condition.database is None


# -- what cannot be had here is given

SQLITE = SqliteFacts((3, 54, 1), (3, 51, 3))
POSTGRES = PostgresFacts({"fsync": "on"})
GIVEN = [
    ({"library": (3, 40, 1)}, "library-old"),
    ({"synchronous": 1}, "not-synced"),
    ({"pages": 40_000, "free_pages": 30_000}, "free-space"),
    ({"filesystem": "NFS"}, "network-disk"),
    ({"disk_free": 1 << 29}, "disk-low"),
    ({"settings": {"fsync": "off"}}, "fsync-off"),
    ({"settings": {"full_page_writes": "off"}}, "full-page-writes-off"),
    ({"settings": {"autovacuum": "off"}}, "autovacuum-off"),
    ({"settings": {"synchronous_standby_names": "*"}}, "standby-missing"),
    ({"synchronous_commit": "local"}, "commits-not-durable"),
    ({"sessions": 95}, "connections-short"),
    ({"tables": (Table("runs", 10, 20_000, 1, None),)}, "dead-rows"),
    ({"age": 1_500_000_000}, "wraparound"),
    ({"lacking": ("UPDATE",), "role": "app"}, "privileges"),
]


@pytest.mark.parametrize(("facts", "code"), GIVEN, ids=[code for _, code in GIVEN])
def test_what_is_wrong_by_the_facts_is_found(facts, code):
    base = SQLITE if facts.keys() <= set(SqliteFacts.__dataclass_fields__) else POSTGRES
    assert codes(diagnose(Condition("s", version=1, known=1, database=base))) == []
    assert codes(diagnose(Condition("s", version=1, known=1, database=replace(base, **facts)))) == [code]


@pytest.mark.parametrize(("apart", "expected"), [(0, []), (SECOND // 2, []), (-2 * SECOND, ["clock-apart"])])
def test_clocks_that_differ_are_found(apart, expected):
    assert (
        codes(diagnose(Condition("s", now=HOUR + apart, here=HOUR, version=1, known=1, database=POSTGRES))) == expected
    )


def test_a_schema_is_compared_with_the_one_that_is_known():
    for version, code in ((0, "schema-missing"), (1, "schema-older")):
        assert codes(diagnose(Condition("s", version=version, known=2, database=SQLITE))) == [code]


def test_very_many_ended_runs_are_worth_a_word():
    inside = Contents({Status.COMPLETED: 100_000}, 100_000)
    assert codes(diagnose(Condition("s", version=1, known=1, database=SQLITE, contents=inside))) == ["runs-kept"]


def test_every_kind_of_finding_is_provoked():
    seen = {code for _, expected in CONTENTS for code in expected}
    seen |= {code for _, expected, _ in DATABASES + FILES for code in expected}
    seen |= {code for _, code in GIVEN}
    elsewhere = {
        "second-library", "pooler", "locks-waited", "long-transaction", "idle-timeout", "clock-apart", "schema-missing",
        "schema-older", "runs-kept", "store-read-only", "store-unsafe", "store-fault",
    }  # fmt: skip
    assert seen | elsewhere == set(STORES)


def test_the_command_says_it_in_words_and_in_json_and_by_its_exit_code(store, bench):
    run = CliRunner()

    def said(*more, **environ):
        return run.invoke(cli, ["doctor", "--store", store, *more], env=environ)

    calm = said(COLUMNS="80")
    assert calm.exit_code == 0
    assert calm.stdout.endswith("✓ all is well\n")
    builds(bench)
    assert said().exit_code == 0
    assert "✓ nothing is wrong" in said().stdout
    runs_without_code(bench)
    assert said().exit_code == 1
    blocked(bench)
    for columns in ("80", "120"):
        told = said(COLUMNS=columns)
        assert told.exit_code == 7
        assert all(len(line) <= int(columns) for line in told.stdout.splitlines())
        assert "✗ 1 run blocked" in told.stdout
    data = json.loads(said("--json").stdout)
    assert data["severity"] == "bad"
    assert [one["severity"] for one in data["findings"]] == ["bad", "bad", "note"]
    assert data["runs"]["blocked"] == 2
    assert {one["life"] for one in data["workers"]} == {"alive"}
    assert run.invoke(cli, ["doctor", "--store", "postgresql://127.0.0.1:1/nowhere"]).exit_code == 3
