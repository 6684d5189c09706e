"""``signal`` and ``pause``, of one run and of many."""

from __future__ import annotations

import json

import pytest

from perdure import sync
from perdure.model.records import Kind, Status
from perdure.store.open import open_store
from tests.cli import shop


@pytest.fixture
def enqueue(store):
    """Enqueue a run under an id."""

    def make(run_id, **options):
        with sync.Engine(store).client() as client:
            client.enqueue(shop.plain, run_id=run_id, **options)

    return make


def row(store, run_id):
    with open_store(store) as opened:
        return opened.get_run(run_id)


def test_a_run_is_sent_a_signal_once_under_one_key(perdure, store, enqueue):
    enqueue("r")
    told = perdure("signal", "r", "approved", '{"by": "ada"}', "--key", "1")
    assert (told.exit_code, told.stderr.splitlines()[0]) == (0, "perdure: run r is sent approved")
    assert "no worker is running" in told.stderr
    told = perdure("signal", "r", "approved", '{"by": "ada"}', "--key", "1")
    assert "has been sent that before" in told.stderr
    assert json.loads(perdure("signal", "r", "approved", "--json").stdout)["sent"] is True
    assert row(store, "r").inbox == 2


def test_all_runs_of_a_kind_are_sent_a_signal(perdure, store, enqueue):
    for run_id, customer in (("a", "1"), ("b", "1"), ("c", "2")):
        enqueue(run_id, tags={"customer": customer})
    told = perdure("signal", "approved", "true", "--tag", "customer=1", "--yes")
    assert (told.exit_code, "signal approved to: 2 runs" in told.stderr) == (0, True)
    assert [row(store, run_id).inbox for run_id in "abc"] == [1, 1, 0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("r", "approved", "yes"), "is no JSON"),
        (("r",), "write: perdure signal"),
        (("r", "approved", "1", "2"), "write: perdure signal"),
        (("r", "a/b", "1"), "reserve"),
        (("nobody", "approved"), "no run 'nobody'"),
    ],
)
def test_what_cannot_be_sent_is_told_and_nothing_is_sent(perdure, store, enqueue, words, said):
    enqueue("r")
    told = perdure("signal", *words)
    assert told.exit_code != 0
    assert said in told.stderr
    assert row(store, "r").inbox == 0


def test_a_run_is_paused_and_goes_on_when_it_is_resumed(perdure, store, enqueue, log):
    enqueue("r")
    told = perdure("pause", "r", "--reason", "stock-taking")
    assert (told.exit_code, told.stderr) == (0, "perdure: run r is paused\n")
    assert log("r")[-1].kind == Kind.RUN_PAUSED
    assert "stock-taking" in perdure("show", "r").stdout
    assert json.loads(perdure("pause", "r", "--json").stdout)["status"] == "paused"
    assert perdure("resume", "r").exit_code == 0
    assert row(store, "r").status is Status.PENDING


def test_all_runs_of_a_kind_are_paused(perdure, store, enqueue):
    for run_id in "ab":
        enqueue(run_id)
    assert perdure("pause", "--status", "pending", "--yes").exit_code == 0
    assert {row(store, run_id).status for run_id in "ab"} == {Status.PAUSED}
