"""``perdure run``: run here and now, and go on with the same command."""

from __future__ import annotations

import json
import signal

import pytest

from tests.cli.conftest import SHOP, order, until


def test_the_result_is_printed_and_the_second_call_prints_the_recorded_one(perdure, effects):
    first, second = perdure(*order()), perdure(*order())
    assert (first.exit_code, first.stdout) == (0, "payment-order-1\n")
    assert (second.exit_code, second.stdout) == (0, "payment-order-1\n")
    assert effects() == ["charge order-1", "check order-1", "pack order-1"]


def test_a_run_without_an_id_is_told_the_one_it_got(perdure):
    told = json.loads(perdure("run", f"{SHOP}:plain", "--json").stdout)
    assert perdure("show", told["run_id"]).exit_code == 0


def test_the_result_as_json(perdure):
    told = json.loads(perdure(*order(), "--json").stdout)
    assert told == {"run_id": "order-1", "status": "completed", "result": "payment-order-1", "failure": None}


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_the_input_comes_from_a_file_or_stdin(perdure, tmp_path, way):
    (tmp_path / "in.json").write_text('{"id": "7"}', encoding="utf-8")
    given = f"@{tmp_path / 'in.json'}" if way == "file" else "-"
    told = perdure("run", f"{SHOP}:fulfil", "--input", given, input='{"id": "7"}')
    assert (told.exit_code, told.stdout) == (0, "payment-7\n")


def test_a_workflow_without_input_takes_none(perdure):
    assert perdure("run", f"{SHOP}:plain").stdout == "42\n"
    assert perdure("run", f"{SHOP}:plain", "--input", "1").exit_code == 2


def test_tools_are_given_by_name(perdure):
    told = perdure("run", f"{SHOP}:tooled", "--input", '"colour"', "--tools", f"{SHOP}:TOOLS")
    assert told.stdout == "green\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run", f"{SHOP}:fulfil"], "takes an input"),
        (["run", f"{SHOP}:fulfil", "--input", "nonsense"], "--input '\"nonsense\"'"),
        (["run", f"{SHOP}:fulfil", "--input", "{}"], "does not fit tests.cli.shop.Order: id: Field required"),
        (["run", f"{SHOP}:fulfil", "--input", "@nowhere.json"], "cannot be read from nowhere.json"),
        (["run", f"{SHOP}:nobody"], "there is no 'nobody'"),
        (["run", f"{SHOP}:NOTHING"], "is not a workflow but int"),
        (["run", SHOP], "say which workflow"),
        (["run", "no.such.module:x"], "there is no module"),
        (["run", "orders.py:x"], "write orders"),
        (["run", f"{SHOP}:plain", "--run-id", "a\nb"], "run id"),
    ],
)
def test_a_wrong_command_line_is_told_in_a_sentence(perdure, store, args, message):
    told = perdure(*args)
    assert told.exit_code == 2
    assert told.stderr.startswith("perdure: ")
    assert message in told.stderr
    assert "Traceback" not in told.stderr
    assert "pydantic.dev" not in told.stderr


def test_another_input_under_the_same_id_is_a_conflict(perdure, log):
    perdure(*order())
    before = log("order-1")
    told = perdure(*order(amount=2))
    assert told.exit_code == 5
    assert "created with another input" in told.stderr
    assert log("order-1") == before


def test_a_failed_run_exits_with_1_and_says_where(perdure, effects):
    told = perdure(*order(amount=500))
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr.startswith("perdure: Rejected: order-1\n")
    assert "failed in check#1" in told.stderr
    assert effects().count("check order-1") == 2


def test_a_failure_as_json(perdure):
    told = json.loads(perdure(*order(amount=500), "--json").stdout)
    assert told["result"] is None
    assert (told["failure"]["type"], told["failure"]["text"]) == (f"{SHOP}.Rejected", "order-1")


def test_the_same_command_goes_on_after_sigkill(start, effects, gate, log):
    first = start(*order(workflow="slow"))
    until(lambda: "hold order-1" in effects(), first)
    until(lambda: any(event.key == "charge#1" and event.took is not None for event in log("order-1")), first)
    first.kill()
    first.wait()
    gate("hold")
    second = start(*order(workflow="slow"))
    out, err = second.communicate(timeout=20)
    assert (second.returncode, out) == (0, "payment-order-1 held\n"), err
    assert sorted(effects()) == ["charge order-1", "hold order-1", "hold order-1"]


def test_ctrl_c_lets_steps_finish_and_exits_with_130(start, effects, gate, log):
    child = start(*order(workflow="slow"))
    until(lambda: "hold order-1" in effects(), child)
    child.send_signal(signal.SIGINT)
    assert "interrupted" in child.stderr.readline()
    gate("hold")
    err = child.stderr.read()
    assert (child.wait(timeout=20), child.stdout.read()) == (130, "")
    assert "--run-id order-1 goes on" in err
    assert "Traceback" not in err
    assert {event.key for event in log("order-1") if event.took is not None} == {"charge#1", "hold#1"}


def test_a_second_ctrl_c_ends_at_once(start, effects):
    child = start(*order(workflow="slow"))
    until(lambda: "hold order-1" in effects(), child)
    child.send_signal(signal.SIGINT)
    assert "interrupted" in child.stderr.readline()
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=20) == 130
    assert "ended at once" in child.stderr.read()
