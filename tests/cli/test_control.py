"""``cancel`` and ``resume``."""

from __future__ import annotations

import json

import pytest

from perdure.cli.opening import author
from perdure.model.records import Kind
from tests.cli.conftest import order, until
from tests.cli.test_replay import APP


@pytest.mark.only("sqlite")  # a single look at PostgreSQL does not tell a dead process from a lost session
def test_a_run_whose_process_is_dead_is_cancelled_at_once(perdure, start, effects, log):
    child = start(*order("x", workflow="slow"))
    until(lambda: "hold x" in effects(), child)
    child.kill()
    child.wait()
    told = perdure("cancel", "x", "--reason", "ordered twice")
    assert (told.exit_code, told.stderr) == (0, "perdure: run x is cancelled\n")
    shown = json.loads(perdure("show", "x", "--json").stdout)
    assert (shown["status"], shown["reason"]) == ("cancelled", author().reason("cancelled", "ordered twice"))
    assert [Kind(event.kind) for event in log("x")][-2:] == [Kind.RUN_RECLAIMED, Kind.RUN_CANCELLED]


def test_a_run_in_execution_is_told_and_ends(perdure, start, effects, log):
    child = start(*order("x", workflow="slow"))
    until(lambda: "hold x" in effects(), child)
    told = perdure("cancel", "x", "--reason", "ordered twice")
    assert "asked to cancel" in told.stderr
    _, err = child.communicate(timeout=20)
    assert child.returncode == 1
    assert f"was cancelled: {author().reason('cancelled', 'ordered twice')}" in err
    assert log("x")[-1].kind == Kind.RUN_CANCELLED
    assert "ordered twice" in perdure("show", "x").stdout
    assert perdure("replay", "x").exit_code == 0


def test_what_has_ended_cannot_be_cancelled_nor_resumed(perdure):
    perdure(*order())
    for verb in ("cancel", "resume"):
        told = perdure(verb, "order-1")
        assert (told.exit_code, "completed" in told.stderr) == (5, True)
    assert perdure("cancel", "nobody").exit_code == 4


def test_a_failed_run_is_resumed(perdure, log):
    perdure(*order(amount=500))
    told = perdure("resume", "order-1")
    assert told.exit_code == 0
    assert "no worker is running" in told.stderr
    assert log("order-1")[-1].kind == Kind.RUN_RESUMED
    assert "tries again: check#1" in perdure("events", "order-1").stdout


def test_accepted_drift_lets_a_run_go_on_with_other_arguments(start, perdure, tmp_path, log):
    """The arguments differ; blocked without, and after resume --accept-drift it goes on from what is recorded."""
    file = tmp_path / "app.py"
    file.write_text(
        APP.replace("    return await double(n)\n", "    await refuse(n)\n    return n\n"), encoding="utf-8"
    )

    def run():
        child = start(module="app", cwd=tmp_path)
        out, err = child.communicate(timeout=20)
        return child.returncode, out, err

    assert run()[0] == 1
    file.write_text(APP.replace("n = await double(n)", "n = await double(n + 1)"), encoding="utf-8")
    code, _, err = run()
    assert (code, "recorded with other arguments" in err) == (1, True)
    assert log("c")[-1].kind == Kind.RUN_BLOCKED
    assert "Blocked" in perdure("show", "c").stdout
    assert perdure("resume", "c", "--accept-drift").exit_code == 0
    assert run()[:2] == (0, "12\n")
    assert "drift accepted" in perdure("events", "c").stdout
