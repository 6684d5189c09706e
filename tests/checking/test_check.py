"""``perdure check`` and ``perdure.testing.check``: the same findings, for people, programs and pytest."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import perdure.testing
from perdure.checking import RULES
from perdure.cli.main import cli
from perdure.errors import DefinitionError
from perdure.testing import UnsafeCode
from tests.house import tree

ORDERS = """
import os, time
from perdure import step, workflow

def stamp():
    return time.time()

@workflow
async def fulfil():
    return stamp()
"""
CALM = ORDERS.replace("time.time()", "os.getenv('A')")
RIGHT = ORDERS.replace("time.time()", "3")


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)

    def execute(*args, **files):
        for name, source in files.items():
            (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        return CliRunner().invoke(cli, ["check", *args], prog_name="perdure", catch_exceptions=False)

    return execute


def test_what_is_found_is_shown_and_exits_with_1(command):
    told = command("orders", orders=ORDERS)
    assert told.exit_code == 1
    assert told.stdout == (
        "orders.py:6:12  clock  in stamp, called by fulfil\n"
        "  `time.time(…)` shows another time on every replay: write perdure.now()\n"
        "✗ 1 workflow in 1 file: 1 error, 0 warnings\n"
    )


def test_warnings_exit_with_0_unless_strict(command):
    told = command("orders", orders=CALM)
    assert (told.exit_code, told.stdout.splitlines()[-1]) == (0, "✓ 1 workflow in 1 file: 0 errors, 1 warning")
    assert command("orders", "--strict").exit_code == 1


def test_nothing_found_exits_with_0(command):
    told = command("orders.py", orders=RIGHT)
    assert (told.exit_code, told.stdout) == (0, "✓ 1 workflow in 1 file: nothing found\n")


def test_as_json(command):
    told = command("--json", "orders", orders=ORDERS)
    assert told.exit_code == 1
    assert json.loads(told.stdout) == {
        "files": 1,
        "workflows": 1,
        "findings": [
            {
                "rule": "clock",
                "severity": "error",
                "file": "orders.py",
                "line": 6,
                "column": 12,
                "workflow": "fulfil",
                "function": "stamp",
                "message": "`time.time(…)` shows another time on every replay: write perdure.now()",
                "instead": "write perdure.now()",
            }
        ],
    }


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "say what to look at"),
        (("nowhere",), "there is no source of a module 'nowhere'"),
        (("empty",), "there are no workflows in empty"),
        (("broken",), "broken.py is no Python source"),
    ],
)
def test_a_look_at_nothing_exits_with_2(command, args, said):
    told = command(*args, empty="", broken="(")
    assert told.exit_code == 2
    assert said in told.stderr


def test_the_rules_are_listed(command):
    told = command("--rules")
    assert [line.split()[0] for line in told.stdout.splitlines()[1:]] == list(RULES)
    assert [rule["name"] for rule in json.loads(command("--rules", "--json").stdout)] == list(RULES)


def test_every_rule_stands_in_the_page_about_it():
    page = (tree.ROOT / "docs" / "how-to" / "check.md").read_text("utf-8")
    assert [name for name in RULES if f"| `{name}` |" not in page] == []


def test_in_a_test_what_is_found_is_an_assertion(command):
    command("--rules", orders=ORDERS, calm=CALM, right=RIGHT, empty="")
    with pytest.raises(AssertionError, match=r"orders\.py:6:12: clock: `time\.time") as raised:
        perdure.testing.check("orders", "right")
    assert isinstance(raised.value, UnsafeCode)
    assert [one.rule for one in raised.value.findings] == ["clock"]
    perdure.testing.check("calm")
    with pytest.raises(UnsafeCode, match="environment"):
        perdure.testing.check("calm", strict=True)
    with pytest.raises(DefinitionError, match="no workflows"):
        perdure.testing.check("empty")
