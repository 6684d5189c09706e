"""What the commands say and do about runs that have something to undo, and about deadlines."""

from __future__ import annotations

import json

from perdure.cli.opening import author
from perdure.model.records import Kind
from tests.cli.conftest import order, until


def asleep(start, log, run_id="x"):
    """A run that sleeps with something to undo, and whose code nobody has any more."""
    child = start(*order(run_id, amount=0, workflow="bundle"))
    until(lambda: [event for event in log(run_id) if event.kind == Kind.RUN_SUSPENDED], child)
    child.kill()
    child.wait()


def test_a_run_says_what_it_would_undo_and_when_it_is_cancelled(perdure, start, log):
    asleep(start, log)
    shown = perdure("show", "x").stdout
    assert "would undo  give_back#1" in shown
    assert "deadline" in shown
    told = json.loads(perdure("show", "x", "--json").stdout)
    assert (told["undo"], told["undone"], told["not_undone"]) == (["give_back#1"], [], [])
    assert told["deadline_at"] is not None


def test_a_cancel_waits_for_the_code_unless_it_is_forced(perdure, start, log):
    asleep(start, log)
    told = perdure("cancel", "x", "--reason", "ordered twice")
    assert told.exit_code == 0
    assert "it has to undo give_back#1, and waits for a worker with the code of bundle" in told.stderr
    assert "--force ends it at once" in told.stderr
    assert json.loads(perdure("show", "x", "--json").stdout)["status"] == "sleeping"
    told = perdure("cancel", "x", "--reason", "at once", "--force")
    assert (told.exit_code, told.stderr) == (0, "perdure: run x is cancelled\n")
    assert "not undone  give_back#1" in perdure("show", "x").stdout
    assert log("x")[-1].kind == Kind.RUN_CANCELLED


def test_who_waits_for_a_sleeping_run_cancels_it_and_undoes(perdure, start, log, effects):
    child = start(*order("x", amount=0, workflow="bundle"))
    until(lambda: [event for event in log("x") if event.kind == Kind.RUN_SUSPENDED], child)
    perdure("cancel", "x", "--reason", "ordered twice")
    _, err = child.communicate(timeout=20)
    assert (child.returncode, author().reason("cancelled", "ordered twice") in err) == (1, True)
    assert effects() == ["charge x", "give back x"]


def test_many_can_be_forced(perdure, start, log):
    asleep(start, log)
    told = perdure("cancel", "--workflow", "bundle", "--yes", "--force", "--json")
    assert json.loads(told.stdout) == {"done": 1, "unchanged": 0, "failures": {}}
    assert json.loads(perdure("show", "x", "--json").stdout)["status"] == "cancelled"


def test_a_run_that_has_undone_something_is_not_resumed(perdure, effects):
    assert perdure(*order(workflow="bundle")).exit_code == 1
    assert effects()[-2:] == ["give back last", "give back order-1"]
    shown = perdure("show", "order-1").stdout
    assert "undone     give_back[last], give_back#1" in shown
    assert "it cannot be resumed, only forked from before that" in shown
    told = perdure("resume", "order-1")
    assert told.exit_code == 5
    assert "fork it from before that: fork('charge#1')" in told.stderr
    told = perdure("resume", "--workflow", "bundle", "--yes")
    assert (told.exit_code, told.stderr) == (0, "perdure: resume: 0 runs, 1 left as they were\n")
    assert perdure("replay", "order-1").exit_code == 0
    assert "give_back[last], give_back#1" in perdure("events", "order-1").stdout


def test_a_run_blocked_in_its_undoing_says_what_is_left_and_is_resumed_when_it_is_mended(perdure, effects, gate):
    told = perdure(*order(amount=13, workflow="bundle"))
    assert told.exit_code == 1
    assert "compensation give_back#1 failed: Rejected: the till is closed; not undone: give_back#1" in told.stderr
    shown = perdure("show", "order-1").stdout
    assert "undone      give_back[last]" in shown
    assert "not undone  give_back#1" in shown
    assert perdure("replay", "order-1").exit_code == 0
    told = perdure("cancel", "order-1")
    assert "it is blocked, and has to undo give_back#1 when it is resumed" in told.stderr
    gate("mended")
    assert perdure("resume", "order-1").exit_code == 0
    told = perdure(*order(amount=13, workflow="bundle"))
    assert told.exit_code == 1
    assert "was cancelled" in told.stderr
    assert [line for line in effects() if line.startswith("give")] == [
        "give back last", "give back order-1", "give back order-1",
    ]  # fmt: skip
