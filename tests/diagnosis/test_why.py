"""Why a run is where it is: every state, on each store, with a store that is really in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from perdure.cli.main import cli
from perdure.diagnosis import Severity, why
from perdure.errors import RunNotFound, RunPurged
from perdure.model.failures import encode_failure
from perdure.model.payloads import failed, note, run_failed
from perdure.model.purging import Purgeable
from perdure.model.queues import Limits, QueueRow
from perdure.model.records import FORMAT, CommitItem, InboxKind, Kind, Message, StateChange, Status
from perdure.store.protocol import Route
from perdure.testing.store_suite.bench import ROUTE, SECOND, soon
from tests.house import tree
from tests.servers.behind import vandalise

HOUR = 3600 * SECOND


def codes(found):
    return [cause.finding.code for cause in found.causes]


def explained(bench, run_id="one"):
    found = why(bench.store, run_id)
    for cause in found.causes:
        assert cause.finding.found
        assert "{" not in cause.finding.advice
        assert "secret" not in repr(cause)
    return found


def define(bench, **limits):
    bench.store.define_queues([QueueRow(0, "", "mail", Limits(**limits))])


def created(bench, run_id="one", **changes):
    return bench.create(run_id, payload=b'"secret"', **changes)


# -- ways for a run to be where it is: what makes it so, and the codes that say so


def delayed(bench):
    created(bench, delay_until=bench.store.now() + HOUR)


def no_worker(bench):
    created(bench)


def leaving(bench):
    bench.store.leave_worker(bench.worker())
    created(bench)


def no_code(bench):
    bench.worker()
    created(bench, version="2")


def other_queue(bench):
    bench.worker()
    created(bench, queue="mail")


def in_line(bench):
    bench.worker()
    created(bench, "before")
    created(bench)


def newer(bench):
    bench.worker()
    row = created(bench)
    vandalise(bench.address, "UPDATE runs SET format = ? WHERE run_key = ?", FORMAT + 1, row.run_key)


def paused_queue(bench):
    bench.worker(routes=[Route("greet", queue="mail")])
    created(bench, queue="mail")
    bench.store.pause_queue("mail", paused=True)


def full_queue(bench):
    worker = bench.worker(routes=[Route("greet", queue="mail")])
    define(bench, concurrency=1)
    bench.create("first", queue="mail")
    assert bench.store.claim_runs(worker, [Route("greet", queue="mail")], 5)
    created(bench, queue="mail")


def full_workers(bench):
    worker = bench.worker(routes=[Route("greet", queue="mail")])
    define(bench, per_worker=1)
    bench.create("first", queue="mail")
    assert bench.store.claim_runs(worker, [Route("greet", queue="mail")], 5)
    created(bench, queue="mail")


def used_up_rate(bench):
    worker = bench.worker(routes=[Route("greet", queue="mail")])
    define(bench, starts=1, period=HOUR)
    bench.create("first", queue="mail")
    assert bench.store.claim_runs(worker, [Route("greet", queue="mail")], 5)
    created(bench, queue="mail")


def full_partition(bench):
    worker = bench.worker(routes=[Route("greet", queue="mail")])
    define(bench, per_partition=1)
    bench.create("first", queue="mail", partition="acme")
    assert bench.store.claim_runs(worker, [Route("greet", queue="mail")], 5)
    created(bench, queue="mail", partition="acme")


def refused(bench):
    holder = bench.hold(worker=bench.worker(build="old"))
    other = bench.worker(build="new")
    payload = note(code="drift", reason="drift: it moved", build="old")
    assert len(bench.store.refuse_run(holder.key, holder.epoch, "old", payload)) == 2
    bench.store.retire_worker(other)


def running(bench):
    holder = bench.hold()
    holder.commit(CommitItem(holder.key, holder.epoch, [holder.event(Kind.STEP_STARTED, b"{}", "greet/say#1")]))


def asked(bench):
    holder = bench.hold()
    bench.store.request_cancel(holder.key, "no more")
    bench.store.pause_run(holder.key, "a rest")


def sleeping(bench):
    holder = bench.hold()
    holder.commit(holder.suspend(wake_at=bench.store.now() + HOUR))


def woken(bench):
    holder = bench.hold()
    holder.commit(holder.suspend(wake_at=bench.store.now() - 1))


def retrying(bench):
    holder = bench.hold()
    at = bench.store.now() + HOUR
    event = holder.event(
        Kind.STEP_FAILED, failed(encode_failure(ValueError("no such card")), next_at=at), "greet/say#1"
    )
    item = holder.suspend(Status.RETRYING, wake_at=at)
    holder.commit(CommitItem(holder.key, holder.epoch, [event, *item.events], state=item.state))


def waiting(bench):
    holder = bench.hold()
    holder.commit(holder.suspend(Status.WAITING, awaits=["approved"], wake_at=bench.store.now() + HOUR))


def misheard(bench):
    waiting(bench)
    key = bench.store.get_run("one").run_key
    bench.store.deliver([Message(InboxKind.SIGNAL, key, name="aproved", payload=b'"secret"')])


def heard(bench):
    bench.worker()
    waiting(bench)
    key = bench.store.get_run("one").run_key
    bench.store.deliver([Message(InboxKind.SIGNAL, key, name="approved", payload=b'"secret"')])


def paused(bench):
    bench.store.pause_run(created(bench).run_key, "a rest")


def blocked_with(payload, reason):
    def block(bench):
        row = created(bench)
        assert bench.store.block_run(row.run_key, row.epoch, payload, reason)

    block.__name__ = f"blocked_for_{reason.split()[-1]}"
    return block


def crashed(bench):
    row = created(bench)
    for _ in range(2):
        worker = bench.worker()
        assert bench.claim(worker)
        bench.store.retire_worker(worker)
        vandalise(bench.address, "UPDATE workers SET stopped = 0")
        bench.store.reclaim(0, [worker], cap=2)
    assert bench.row(row.run_key).status is Status.BLOCKED


def ended(status):
    def end(bench):
        holder = bench.hold()
        holder.commit(holder.end(status, reason="because"))

    end.__name__ = status.word
    return end


def failed_after_undoing(bench):
    holder = bench.hold()
    undo = holder.event(Kind.UNDO_BEGUN, note(undo=["greet/back#1"]), "undo#1")
    ending = holder.event(Kind.RUN_FAILED, run_failed(encode_failure(ValueError("no")), {"greet/say#1": 1}))
    state = StateChange(Status.FAILED)
    assert holder.commit(CommitItem(holder.key, holder.epoch, [undo, ending], state=state))


def damaged(bench):
    holder = bench.hold()
    holder.commit(holder.suspend(wake_at=bench.store.now() + HOUR))
    vandalise(bench.address, "UPDATE events SET kind = 99 WHERE run_key = ? AND seq = 2", holder.key)


def overdue(bench):
    created(bench, deadline_at=bench.store.now() - 1)


STATES = [
    (delayed, ["delayed"]),
    (no_worker, ["no-worker"]),
    (leaving, ["no-worker"]),
    (no_code, ["no-code"]),
    (other_queue, ["no-code"]),
    (in_line, ["in-line"]),
    (newer, ["newer-format", "in-line"]),
    (paused_queue, ["queue-paused"]),
    (full_queue, ["queue-full"]),
    (full_workers, ["queue-workers-full"]),
    (used_up_rate, ["queue-rate"]),
    (full_partition, ["partition-full"]),
    (refused, ["refused-by-all", "refused-by-some"]),
    (running, ["running", "step-running"]),
    (asked, ["running", "cancel-asked", "pause-asked"]),
    (sleeping, ["sleeping"]),
    (woken, ["woken", "in-line"]),
    (retrying, ["retrying"]),
    (waiting, ["waits-signal"]),
    (misheard, ["waits-signal", "signal-unasked"]),
    (heard, ["woken", "in-line"]),
    (paused, ["paused"]),
    (blocked_with(b'{"code":"drift","reason":"it moved"}', "it moved"), ["blocked-drift"]),
    (blocked_with(b'{"code":"undecodable","reason":"a type"}', "a type"), ["blocked-undecodable"]),
    (blocked_with(b'{"code":"integrity","reason":"a byte"}', "a byte"), ["blocked-integrity"]),
    (blocked_with(b'{"code":"undo_failed","reason":"till"}', "till"), ["blocked-undo"]),
    (blocked_with(b'{"reason":"whatever"}', "whatever"), ["blocked"]),
    (crashed, ["blocked-crashes"]),
    (ended(Status.COMPLETED), ["completed"]),
    (ended(Status.FAILED), ["failed"]),
    (ended(Status.CANCELLED), ["cancelled"]),
    (failed_after_undoing, ["failed-undone"]),
    (damaged, ["log-unreadable", "sleeping"]),
    (overdue, ["no-worker", "deadline-passed"]),
]


@pytest.mark.parametrize(("make", "expected"), STATES, ids=[make.__name__ for make, _ in STATES])
def test_a_run_is_told_why_it_is_where_it_is(make, expected, bench):
    make(bench)
    assert codes(explained(bench)) == expected


def test_what_is_said_names_what_helps(bench):
    bench.worker()
    created(bench, "two", version="2")
    (cause,) = explained(bench, "two").causes
    assert "served: version" in cause.finding.found
    created(bench, "queued", queue="mail")
    (cause,) = explained(bench, "queued").causes
    assert "served: from queue (default)" in cause.finding.found
    created(bench, "named", workflow="gret")
    (cause,) = explained(bench, "named").causes
    assert "served: greet" in cause.finding.found


def test_times_and_places_are_told(bench):
    define(bench, starts=1, period=HOUR)
    used_up_rate(bench)
    now = bench.store.now()
    (rate,) = explained(bench).causes
    assert now + HOUR - 60 * SECOND < rate.until <= now + HOUR
    (held,) = explained(bench, "first").causes
    assert held.who.pid == os.getpid()
    assert held.who.life == "alive"
    assert held.since <= now < held.who.leased_until <= now + 61 * SECOND
    for number in range(3):
        bench.create(f"before-{number}", queue="mail", created_at=1)
    assert "; 3 come before it" in explained(bench).causes[0].finding.found


def test_a_chain_is_followed_to_its_end(bench):
    """A parent waits for a child, that for a grandchild, and that for its queue."""
    worker = bench.worker(routes=[ROUTE, Route("greet", queue="mail")])
    above = None
    for run_id, below in (("one", "two"), ("two", "three")):
        holder = (
            bench.hold(run_id, worker) if above is None else bench.retake(bench.store.get_run(run_id).run_key, worker)
        )
        queue = "mail" if below == "three" else ""
        child = bench.new(below, parent_key=holder.key, queue=queue)
        started = holder.event(Kind.CHILD_STARTED, note(run_id=below, workflow="greet"), f"greet/{below}#1")
        item = holder.suspend(Status.WAITING)
        done = holder.commit(
            CommitItem(holder.key, holder.epoch, [started, *item.events], state=item.state, children=[child])
        )
        assert [verdict.name for verdict in done] == ["APPLIED"]
        above = run_id
    bench.store.pause_queue("mail", paused=True)
    found = explained(bench)
    assert codes(found) == ["waits-child", "waits-child", "queue-paused"]
    assert [(cause.run_id, cause.depth) for cause in found.causes] == [("one", 0), ("two", 1), ("three", 2)]
    assert found.worst is Severity.WARN


def test_an_unknown_run_is_answered_with_ids_that_are_like_it(bench):
    created(bench, "order-42")
    bench.create("elsewhere", namespace="other")
    with pytest.raises(RunNotFound) as caught:
        why(bench.store, "order-4")
    assert caught.value.advice == "did you mean order-42?"
    with pytest.raises(RunNotFound) as caught:
        why(bench.store, "elsewhere")
    assert "namespace 'other'" in caught.value.advice


def test_a_dead_holder_is_told_from_a_living_one(store, bench):
    """The process that has the run is killed; nothing has taken the run over yet."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.diagnosis.dying", store], cwd=tree.ROOT, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(tree.PACKAGE.parent)},
    )  # fmt: skip
    with child:
        assert child.stdout.readline() == "holds\n"
        found = explained(bench)
        assert codes(found)[0] == "running"
        assert found.causes[0].who.pid == child.pid
        child.send_signal(signal.SIGKILL)
        child.wait()
    # A server takes a moment to notice that a session has ended.
    assert soon(lambda: codes(explained(bench))[0] == "holder-gone")
    (gone, next_) = explained(bench).causes
    assert f"process {child.pid} on " in gone.finding.found
    assert gone.who.life == "gone"
    assert next_.finding.code == "no-worker"


def test_a_holder_that_does_not_renew_its_lease_is_told(bench):
    holder = bench.hold()
    bench.store.renew(holder.worker, -1, 2)
    (cause,) = explained(bench).causes
    assert cause.finding.code == "holder-frozen"
    assert f"process {os.getpid()}" in cause.finding.advice


def test_the_command_says_it_to_people_and_to_programs(store, bench):

    waiting(bench)
    run = CliRunner()
    for columns in ("80", "120"):
        told = run.invoke(cli, ["why", "one", "--store", store], env={"COLUMNS": columns})
        assert told.exit_code == 0
        assert all(len(line) <= int(columns) for line in told.stdout.splitlines())
        assert "· it waits for the signal 'approved'" in told.stdout
        assert "→ perdure signal one approved" in told.stdout
        assert "(in 60 min)" in told.stdout or "(in 59 min)" in told.stdout
    data = json.loads(run.invoke(cli, ["why", "one", "--store", store, "--json"]).stdout)
    (cause,) = data["causes"]
    assert (data["status"], cause["code"], cause["severity"]) == ("waiting", "waits-signal", "note")
    assert cause["until"].endswith("Z")
    missing = run.invoke(cli, ["why", "on", "--store", store])
    assert missing.exit_code == 4
    assert "did you mean one?" in missing.stderr


def test_a_run_that_a_damaged_store_calls_its_own_child_is_explained(bench):
    holder = bench.hold()
    started = holder.event(Kind.CHILD_STARTED, note(run_id="one", workflow="greet"), "greet/one#1")
    item = holder.suspend(Status.WAITING)
    holder.commit(CommitItem(holder.key, holder.epoch, [started, *item.events], state=item.state))
    assert codes(explained(bench)) == ["waits-news"]


def test_a_purged_run_is_told_from_one_that_never_was(bench):
    holder = bench.hold()
    holder.commit(holder.end())
    row = bench.row(holder.key)
    rule = Purgeable((Status.COMPLETED,), row.ended_at + 1, "")
    assert bench.store.purge_runs([holder.key], rule) == [holder.key]
    with pytest.raises(RunPurged):
        why(bench.store, "one")
