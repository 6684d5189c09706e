"""``fork``, and ``cancel``, ``resume`` and ``fork`` of many runs."""

from __future__ import annotations

import json
import re

import pytest

from perdure import sync
from perdure.cli.opening import author
from perdure.model.records import Kind
from tests.cli import shop
from tests.cli.conftest import order


@pytest.fixture
def enqueue(store):
    """Enqueue an order under a run id."""

    def make(run_id, **options):
        with sync.Engine(store).client() as client:
            client.enqueue(shop.fulfil, shop.Order(id=run_id), run_id=run_id, **options)

    return make


def ids(told):
    return [json.loads(line)["run_id"] for line in told.stdout.splitlines()]


def test_a_run_is_forked_from_a_step(perdure, log, effects, tmp_path):
    perdure(*order())
    told = perdure("fork", "order-1", "--from", "check", "--id", "again")
    assert told.exit_code == 0
    assert "run again is a fork of order-1 from check" in told.stderr
    assert "no worker is running" in told.stderr
    assert log("again")[-1].kind == Kind.RUN_FORKED
    assert "run_forked" in perdure("events", "again").stdout
    assert "from order-1, before check#1" in perdure("events", "again").stdout
    assert "forked from  order-1, before check#1 (event 4)" in perdure("show", "again").stdout
    shown = json.loads(perdure("show", "again", "--json").stdout)
    assert shown["forked_from"] == {"run_id": "order-1", "step": "check#1", "seq": 3, "keep_keys": False}
    origin = json.loads(perdure("show", "order-1", "--json").stdout)
    assert (origin["forked_from"], origin["forks"]) == (None, ["again"])
    assert re.search(r"^  forks +again$", perdure("show", "order-1").stdout, flags=re.MULTILINE)
    assert perdure("verify").exit_code == 0
    assert perdure(*order()[:-1], "again").exit_code == 0
    assert effects() == [f"{what} order-1" for what in ("charge", "check", "pack", "check", "pack")]
    assert perdure("replay", "again").exit_code == 0
    (tmp_path / "again.json").write_text(perdure("export", "again").stdout, encoding="utf-8")
    assert perdure("replay", "--history", tmp_path / "again.json").exit_code == 0
    assert perdure("verify").exit_code == 0


def test_the_keys_of_the_origin_are_kept_if_asked_for(perdure):
    perdure(*order())
    told = perdure("fork", "order-1", "--from", "charge#1", "--keep-keys", "--json")
    made = json.loads(told.stdout)
    assert (made["status"], made["workflow"]) == ("pending", "fulfil")
    assert "whose idempotency keys it keeps" in perdure("show", made["run_id"]).stdout


def test_what_cannot_be_forked_is_told(perdure):
    perdure(*order())
    told = perdure("fork", "order-1", "--from", "chrage")
    assert (told.exit_code, told.stdout) == (4, "")
    assert "has not come to a step 'chrage'" in told.stderr
    assert "charge#1, check#1, pack#1" in told.stderr
    assert perdure("fork", "nobody", "--from", "charge").exit_code == 4
    assert perdure("fork", "order-1", "--from", "pack", "--id", "order-1").exit_code == 5
    assert perdure("fork", "order-1").exit_code == 2
    assert ids(perdure("runs", "--json")) == ["order-1"]


def test_many_are_resumed_and_cancelled_and_forked(perdure):
    for number in range(3):
        perdure(*order(f"bad-{number}", amount=500))
    perdure(*order("good"))
    told = perdure("resume", "--status", "failed", "--workflow", "fulfil", "--yes")
    assert (told.exit_code, told.stderr) == (0, "perdure: resume: 3 runs\n")
    assert ids(perdure("runs", "--json", "--status", "pending")) == ["bad-2", "bad-1", "bad-0"]
    told = perdure("cancel", "--workflow", "fulfil", "--reason", "enough", "--yes", "--json")
    assert json.loads(told.stdout) == {"done": 3, "unchanged": 0, "failures": {}}
    cancelled = perdure("runs", "--json", "--status", "cancelled").stdout.splitlines()
    assert {json.loads(line)["reason"] for line in cancelled} == {author().reason("cancelled", "enough")}
    told = perdure("fork", "--workflow", "fulfil", "--from", "pack", "--yes", "--json")
    said = json.loads(told.stdout)
    assert (told.exit_code, said["done"], sorted(said["failures"])) == (1, 1, ["bad-0", "bad-1", "bad-2"])
    assert {one["code"] for one in said["failures"].values()} == {"step_not_found"}
    told = perdure("fork", "--workflow", "fulfil", "--from", "pack", "--yes")
    assert "fork: 0 runs, 2 left as they were" in told.stderr
    assert "run bad-0: run 'bad-0' has not come to a step 'pack'" in told.stderr
    assert ids(perdure("runs", "--json", "--status", "pending")) == ["good-from-pack"]


def test_runs_are_found_by_tag(perdure, enqueue):
    enqueue("a", tags={"customer": "42", "city": "Bern"})
    enqueue("b", tags={"customer": "42"})
    enqueue("c")
    assert ids(perdure("runs", "--json", "--tag", "customer=42")) == ["b", "a"]
    assert ids(perdure("runs", "--json", "--tag", "customer=42", "--tag", "city=Bern")) == ["a"]
    assert "no runs like that" in perdure("runs", "--tag", "customer=43").stdout
    assert "customer: 42" in perdure("show", "b").stdout
    assert perdure("cancel", "--tag", "customer=42", "--yes").exit_code == 0
    assert ids(perdure("runs", "--json", "--status", "pending")) == ["c"]
    assert perdure("runs", "--tag", "customer").exit_code == 2


def test_runs_are_found_by_queue_id_time_and_error_and_counted(perdure, enqueue):
    enqueue("a-1", queue="slow")
    enqueue("a-2")
    perdure(*order("bad", 500))

    def found(*options):
        return ids(perdure("runs", "--json", *options))

    assert found("--queue", "slow") == found("--id-prefix", "a-1") == ["a-1"]
    assert found("--error", "Rejected", "--ended-after", "1h", "--version", "1") == ["bad"]
    assert found("--created-after", "1h", "--id-prefix", "a") == ["a-2", "a-1"]
    assert found("--created-before", "2020-01-01T00:00Z") == found("--error", "KeyError") == []
    counted = json.loads(perdure("runs", "--count", "--json", "--created-before", "2999-01-01T00:00+00:00").stdout)
    assert (counted["total"], counted["by_status"]["pending"], counted["by_status"]["failed"]) == (3, 2, 1)
    assert counted["by_workflow"]["fulfil"]["completed"] == 0
    assert [line.split() for line in perdure("runs", "--count").stdout.splitlines()] == [
        ["STATUS", "RUNS"], ["pending", "2"], ["failed", "1"], ["together", "3"]
    ]  # fmt: skip
    for wrong in ("soon", "2026-05-01T12:00", "-2h", ""):
        assert perdure("runs", "--created-after", wrong).exit_code == 2, wrong
    assert perdure("runs", "--created-after", "1h", "--created-before", "2h").exit_code == 2
    told = perdure("cancel", "--id-prefix", "a", "--queue", "slow", "--created-after", "1h", "--yes")
    assert "cancel: 1 run" in told.stderr
    assert found("--status", "pending") == ["a-2"]


@pytest.mark.parametrize(
    "line",
    [
        ("cancel",), ("resume",), ("fork", "--from", "x"), ("cancel", "a", "--status", "pending"),
        ("resume", "a", "--workflow", "fulfil"), ("fork", "a", "--from", "x", "--tag", "a=b"),
        ("fork", "--status", "failed", "--from", "x", "--id", "y"), ("cancel", "--tag", "a"), ("cancel", "--tag", "=b"),
        ("cancel", "--status", "pending"), ("resume", "--status", "failed"), ("cancel", "--yes"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_it_is_asked_which_runs_and_whether(perdure, enqueue, line):
    """Without a terminal nobody can be asked, so it must be said on the command line."""
    enqueue("a")
    told = perdure(*line)
    assert (told.exit_code, told.stdout) == ((0, "") if line == ("resume", "--status", "failed") else (2, ""))
    assert ids(perdure("runs", "--json", "--status", "pending")) == ["a"]
