"""``runs``, ``show``, ``events``: what is there, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.store.open import open_store
from perdure.store.protocol import Route
from perdure.testing.store_suite import Bench
from tests.cli.conftest import order, until


@pytest.fixture
def three(perdure):
    perdure(*order("good"))
    perdure(*order("bad", 500))
    perdure(*order("other"))


def lines(result):
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("three")
class TestRuns:
    def test_the_newest_stands_first(self, perdure):
        out = perdure("runs").stdout.splitlines()
        assert [line.split()[0] for line in out] == ["RUN", "other", "bad", "good"]
        assert "Rejected: bad" in out[2]

    def test_by_status_workflow_and_limit(self, perdure):
        assert [one["run_id"] for one in lines(perdure("runs", "--json", "--status", "failed"))] == ["bad"]
        assert [one["run_id"] for one in lines(perdure("runs", "--json", "--limit", "2"))] == ["other", "bad"]
        assert lines(perdure("runs", "--json", "--workflow", "nap")) == []
        assert perdure("runs", "--workflow", "nap").stdout == "no runs like that\n"

    def test_json_has_iso_instants(self, perdure):
        one = lines(perdure("runs", "--json"))[0]
        assert one["created_at"].endswith("Z")
        assert one["status"] == "completed"


@pytest.mark.usefixtures("three")
class TestShow:
    def test_steps_with_attempts_and_failures(self, perdure):
        out = perdure("show", "bad").stdout
        assert "failed in  check#1" in out
        assert "✓  charge#1  completed" in out
        assert "✗  check#1   failed" in out
        assert "perdure resume bad" in out

    def test_json_has_decoded_values(self, perdure):
        told = json.loads(perdure("show", "bad", "--json").stdout)
        assert told["input"] == {"id": "bad", "amount": 500}
        assert [step["key"] for step in told["steps"]] == ["charge#1", "check#1"]
        assert told["steps"][0]["result"] == "payment-bad"
        assert [failure["attempt"] for failure in told["steps"][1]["failures"]] == [1, 2]
        assert told["steps"][1]["failure"]["line"] == "Rejected: bad"
        assert told["code"]["qualname"] == "fulfil"

    def test_an_unknown_run_is_answered_with_similar_ids(self, perdure):
        told = perdure("show", "goood")
        assert told.exit_code == 4
        assert "did you mean good?" in told.stderr


@pytest.mark.only("sqlite")  # a single look at PostgreSQL does not tell a dead process from a lost session
def test_a_dead_process_is_shown_with_what_runs_again(perdure, start, effects, log):
    child = start(*order("x", workflow="slow"))
    until(lambda: any(event.key == "hold#1" for event in log("x")), child)
    working = perdure("show", "x").stdout
    assert f"process {child.pid}" in working
    assert "…  hold#1    running" in working
    child.kill()
    child.wait()
    dead = perdure("show", "x").stdout
    assert "✓  charge#1  completed" in dead
    assert "!  hold#1    interrupted" in dead
    assert "No worker is running on this store" in dead
    assert "its process is gone" in perdure("runs").stdout


def test_a_sleeping_run_says_until_when(perdure, start, log):
    child = start(*order("n", workflow="nap"))
    until(lambda: log("n")[-1:] and log("n")[-1].kind == 15, child)
    assert "a timer, " in perdure("show", "n").stdout
    (listed,) = lines(perdure("runs", "--json", "--status", "sleeping"))
    assert listed["wake_at"] > listed["created_at"]
    assert "goes on in 13 d" in perdure("runs").stdout


class TestBuilds:
    @pytest.fixture
    def bench(self, perdure, store):
        perdure(*order("done"))
        with Bench(lambda: open_store(store)) as opened:
            yield opened

    def test_a_run_whose_code_no_worker_has_is_shown_and_cancelled(self, perdure, bench):
        bench.worker(routes=[Route("other")])
        bench.create("lost")
        bench.create("served", workflow="other")
        assert "no worker has its code" in perdure("runs").stdout
        told = {one["run_id"]: one["codeless"] for one in lines(perdure("runs", "--json"))}
        assert told == {"lost": True, "served": False, "done": False}
        assert [one["run_id"] for one in lines(perdure("runs", "--json", "--codeless"))] == ["lost"]
        assert perdure("runs", "--codeless", "--status", "completed").stdout == "no runs like that\n"
        assert "none has the code for it: greet" in perdure("show", "lost").stdout
        assert "the code" not in perdure("show", "served").stdout
        assert json.loads(perdure("show", "lost", "--json").stdout)["codeless"] is True
        assert "is cancelled" in perdure("cancel", "lost").stderr

    def test_who_has_refused_a_run_and_why(self, perdure, bench):
        bench.worker(build="new")
        held = bench.hold("refused", bench.worker(build="old"))
        found = {"code": "drift", "reason": "drift: it moved", "build": "old", "key": "a#1"}
        bench.store.refuse_run(held.key, held.epoch, "old", json.dumps(found).encode())
        assert (
            "Build old has refused it and leaves it to other builds: drift: it moved"
            in perdure("show", "refused").stdout
        )
        (refusal,) = json.loads(perdure("show", "refused", "--json").stdout)["refusals"]
        assert (refusal["build"], refusal["code"], refusal["key"], refusal["found"]) == ("old", "drift", "a#1", None)


class TestEvents:
    def test_one_line_an_event(self, perdure):
        perdure(*order())
        told = perdure("events", "order-1").stdout.splitlines()
        assert [line.split()[2] for line in told[1:]] == [
            "run_created", "run_claimed", "step_completed", "step_completed", "step_completed", "run_completed",
        ]  # fmt: skip

    def test_json_and_after(self, perdure):
        perdure(*order())
        told = lines(perdure("events", "order-1", "--json", "--after", "4"))
        assert [(one["seq"], one["kind"], one["key"]) for one in told] == [
            (5, "step_completed", "pack#1"),
            (6, "run_completed", None),
        ]
        assert told[-1]["value"] == "payment-order-1"

    def test_follow_ends_with_the_run(self, start, effects, gate, log):
        running = start(*order("f", workflow="slow"))
        until(lambda: "hold f" in effects(), running)
        following = start("events", "f", "--follow", "--json")
        seen = [json.loads(following.stdout.readline()) for _ in range(3)]
        assert [one["kind"] for one in seen][:2] == ["run_created", "run_claimed"]
        assert following.poll() is None
        gate("hold")
        rest, err = following.stdout.read(), following.stderr.read()
        assert (following.wait(timeout=20), err) == (0, "")
        told = [one["seq"] for one in seen] + [json.loads(line)["seq"] for line in rest.splitlines()]
        assert told == [event.seq for event in log("f")]
        assert json.loads(rest.splitlines()[-1])["kind"] == "run_completed"

    def test_follow_says_that_a_run_is_blocked_and_follows_on(self, perdure, start, store):
        with Bench(lambda: open_store(store)) as bench:
            row = bench.create("b")
            bench.store.block_run(row.run_key, row.epoch, b'{"reason":"look at it"}', "look at it")
        following = start("events", "b", "--follow", "--json")
        seen = [json.loads(following.stdout.readline())["kind"] for _ in range(2)]
        assert seen == ["run_created", "run_blocked"]
        assert following.stderr.readline() == "perdure: run b is blocked: look at it\n"
        assert "perdure resume b" in following.stderr.readline()
        perdure("resume", "b")
        assert json.loads(following.stdout.readline())["kind"] == "run_resumed"
        perdure("cancel", "b")
        rest, err = following.communicate(timeout=20)
        assert (following.returncode, err) == (0, "")
        assert json.loads(rest)["kind"] == "run_cancelled"


@pytest.mark.only("sqlite")
def test_looking_never_makes_a_file(perdure, store):
    store = Path(store)
    for command in (
        ["runs"],
        ["show", "x"],
        ["events", "x"],
        ["replay", "x"],
        ["verify"],
        ["cancel", "x"],
        ["export", "x"],
    ):
        told = perdure(*command)
        assert told.exit_code == 3
        assert "there is no store at" in told.stderr
        assert list(store.parent.iterdir()) == []
    store.touch()
    assert perdure("runs").exit_code == 3
    assert store.stat().st_size == 0
