"""``perdure schedules``."""

from __future__ import annotations

import asyncio
import json

import pytest

from perdure import Engine
from tests.cli import shop


@pytest.fixture
def define(store):
    """Define schedules as a program would."""

    def act(*schedules):
        async def main():
            engine = Engine(store, workflows=[shop.plain, shop.fulfil], durability="process")
            async with engine.client():
                for workflow, value, options in schedules:
                    await engine.schedule(workflow, value, **options)

        asyncio.run(main())

    return act


NIGHTLY = (shop.plain, None, {"cron": "0 3 * * *", "tz": "Europe/Berlin", "key": "nightly", "catch_up": "2h"})
ORDERS = (shop.fulfil, shop.Order(id="7"), {"every": "1h", "key": "orders", "jitter": "5m", "tags": {"a": "b"}})


def test_schedules_are_listed_as_text_and_as_json(perdure, define):
    define()
    assert perdure("schedules").stdout == "no schedules yet\n"
    define(NIGHTLY, ORDERS)
    for command in (("schedules",), ("schedules", "list")):
        lines = perdure(*command).stdout.splitlines()
        assert [line.split()[0] for line in lines] == ["SCHEDULE", "nightly", "orders"]
        assert "cron 0 3 * * * Europe/Berlin" in lines[1]
        assert "no worker has its code" in lines[1]
        one, two = map(json.loads, perdure(*command, "--json").stdout.splitlines())
        assert (one["key"], one["status"], one["overlap"], one["catch_up"]) == ("nightly", "active", "skip", 7200.0)
        assert (two["input"], two["jitter"], two["tags"]) == ({"id": "7", "amount": 1}, 300.0, {"a": "b"})


def test_a_schedule_is_shown_with_what_comes_and_what_became_of_it(perdure, define):
    define(NIGHTLY)
    run_id = perdure("schedules", "trigger", "nightly").stderr.split()[2]
    shown = perdure("schedules", "show", "nightly").stdout
    assert "triggered" in shown
    assert run_id in shown
    data = json.loads(perdure("schedules", "show", "nightly", "--json").stdout)
    assert [one["run_id"] for one in data["history"]] == [run_id]
    assert len(data["upcoming"]) == 5
    assert data["upcoming"][0] == data["next_at"]
    assert data["running"] == [run_id]


def test_a_schedule_is_paused_resumed_triggered_and_removed(perdure, define):
    define(NIGHTLY)
    assert "paused" in perdure("schedules", "pause", "nightly").stderr
    assert json.loads(perdure("schedules", "--json").stdout)["status"] == "paused"
    assert "next at" in perdure("schedules", "resume", "nightly").stderr
    assert json.loads(perdure("schedules", "--json").stdout)["status"] == "active"
    created = json.loads(perdure("schedules", "trigger", "nightly", "--json").stdout)
    assert (created["workflow"], created["status"]) == ("plain", "pending")
    kept = perdure("schedules", "remove", "nightly", input="n\n")
    assert kept.exit_code != 0
    assert perdure("schedules", "--json").stdout
    assert perdure("schedules", "remove", "nightly", "--yes").exit_code == 0
    assert perdure("schedules", "--json").stdout == ""


@pytest.mark.parametrize("verb", ["show", "pause", "resume", "trigger", "remove"])
def test_what_is_not_there_is_said(perdure, define, verb):
    define(NIGHTLY)
    told = perdure("schedules", verb, "nobody")
    assert (told.exit_code, "no schedule 'nobody'" in told.stderr) == (4, True)


def test_the_store_may_be_named_before_the_verb(perdure, define, store, monkeypatch):
    define(NIGHTLY)
    monkeypatch.setenv("PERDURE_STORE", "/nowhere/at/all.db")
    assert perdure("schedules", "--store", store, "show", "nightly").exit_code == 0
    assert perdure("schedules", "show", "nightly", "--store", store).exit_code == 0


def test_a_run_is_shown_with_the_occurrence_that_it_is(perdure, define):
    define(NIGHTLY)
    run_id = json.loads(perdure("schedules", "trigger", "nightly", "--json").stdout)["run_id"]
    (told,) = json.loads(perdure("schedules", "show", "nightly", "--json").stdout)["history"]
    assert json.loads(perdure("show", run_id, "--json").stdout)["scheduled_at"] == told["at"]
