"""``perdure verify`` finds what was changed from outside."""

from __future__ import annotations

import json
from functools import partial

import pytest

from tests.cli.conftest import order
from tests.servers import behind


@pytest.fixture
def vandalise(store):
    return partial(behind.vandalise, store)


@pytest.fixture
def two(perdure):
    perdure(*order("a"))
    perdure(*order("b", 500))


@pytest.mark.usefixtures("two")
def test_an_untouched_store_is_what_was_written(perdure):
    told = perdure("verify")
    assert (told.exit_code, told.stdout) == (0, "✓ 2 runs, 12 events: everything is what was written\n")


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("update events set payload = x'2231' where run_key = 1 and seq = 3", "event 3 of run 'a' is not what was"),
        ("update events set took = took + 1 where run_key = 1 and seq = 3", "event 3 of run 'a' is not what was"),
        ("delete from events where run_key = 1 and seq = 4", "event 4 of run 'a' is missing"),
        ("delete from events where run_key = 1 and seq = 6", "the log ends at 5"),
        ("delete from events where run_key = 1", "the run has no log"),
        ("update runs set status = 9 where run_key = 1", "the run's row says failed, its log says completed"),
        ("update runs set uid = zeroblob(16) where run_key = 1", "event 1 of run 'a'"),
        ("update runs set seq = 5 where run_key = 1", "another hash"),
        ("update runs set epoch = 0 where run_key = 1", "the run's row at 0"),
    ],
)
def test_damage_is_found_and_named(perdure, vandalise, sql, what):
    vandalise(sql)
    told = perdure("verify")
    assert told.exit_code == 1
    assert what in told.stdout
    damage = json.loads(perdure("verify", "--json").stdout)["damage"]
    assert {one["run_id"] for one in damage} == {"a"}
    assert perdure("verify", "a").exit_code == 1
    assert perdure("verify", "b").exit_code == 0


@pytest.mark.parametrize("sql", ["delete from artifacts", "update artifacts set data = zeroblob(size)"])
def test_damaged_artifacts_are_found(perdure, vandalise, sql, tmp_path):
    (tmp_path / "in.json").write_text(json.dumps({"id": "x" * 70_000}), encoding="utf-8")
    perdure("run", "tests.cli.shop:fulfil", "--input", f"@{tmp_path / 'in.json'}", "--run-id", "a")
    assert perdure("verify").exit_code == 0
    vandalise(sql)
    told = perdure("verify")
    assert (told.exit_code, "artifact" in told.stdout) == (1, True)
