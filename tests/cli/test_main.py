"""What all commands share: exit codes, messages, pipes, help."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from perdure import errors
from perdure.cli.exits import MEANING, Exit, exit_for
from perdure.cli.main import COMMANDS, Perdure, cli, main
from tests.cli.conftest import order
from tests.house import tree

pytestmark = pytest.mark.only("sqlite")  # what they are about is not the store


def test_every_exit_code_says_what_it_means():
    assert list(MEANING) == list(Exit)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.StoreBusy("x"), 3),
        (errors.RunNotFound("x"), 4),
        (errors.RunConflict("x"), 5),
        (errors.WrongState("x"), 5),
        (errors.CodeNotFound("x"), 6),
        (errors.DefinitionError("x"), 2),
        (errors.DriftError("x"), 1),
        (errors.RunCancelled("x"), 1),
    ],
)
def test_every_kind_of_error_has_its_exit_code(error, code):
    assert exit_for(error) == code


def test_the_package_is_a_command(start):
    child = start("--help")
    out, _ = child.communicate(timeout=20)
    assert (child.returncode, out.startswith("Usage: perdure [OPTIONS] COMMAND")) == (0, True)


def test_the_version_is_told(perdure):
    assert perdure("--version").stdout.startswith("perdure ")


def test_an_unknown_command_or_option_is_told_in_a_sentence(perdure):
    assert perdure("bogus").exit_code == 2
    told = perdure("show", "--bogus")
    assert told.exit_code == 2
    assert told.stderr.splitlines() == [
        "perdure: No such option '--bogus'.", "         `perdure show --help` shows how it is written",
    ]  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(perdure, name):
    out = perdure(name, "--help").stdout
    assert f"Example: perdure {name}" in out
    command = cli.get_command(click.Context(cli), name)
    assert [
        option.name
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and not option.help
    ] == []


@pytest.mark.parametrize("flag", ["before", "after"])
def test_debug_shows_where_an_error_came_from(perdure, start, flag):
    perdure(*order())
    args = ["--debug", "show", "nobody"] if flag == "before" else ["show", "nobody", "--debug"]
    child = start(*args)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 4
    assert "Traceback" in err
    assert "no run 'nobody'" in err


def test_a_fault_of_ours_is_told_in_one_line():
    group = Perdure("perdure")

    @click.command()
    def broken():
        raise ZeroDivisionError("division by zero")

    group.get_command = lambda *_: broken
    told = CliRunner().invoke(group, ["broken"])
    assert told.exit_code == 70
    assert told.stderr.splitlines()[0] == "perdure: internal error: ZeroDivisionError: division by zero"


def test_ctrl_c_exits_with_130():
    group = Perdure("perdure")

    @click.command()
    def interrupted():
        raise KeyboardInterrupt

    group.get_command = lambda *_: interrupted
    assert CliRunner().invoke(group, ["interrupted"]).exit_code == 130


def test_a_closed_pipe_is_no_error(perdure, start):
    perdure(*order())
    reading, writing = os.pipe()
    os.close(reading)
    child = start("events", "order-1", stdout=writing)
    os.close(writing)
    _, err = child.communicate(timeout=20)
    assert (child.returncode, err) == (141, "")


def test_rich_is_loaded_for_terminals_only(perdure, store):
    perdure(*order())
    code = "import sys; from perdure.cli.main import main; main(['show', 'order-1']); print('rich' in sys.modules)"

    def run(**environ):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tree.ROOT,
            env={**os.environ, **environ},
            check=True,
            capture_output=True,
            text=True,
            timeout=20,
        )
        return done.stdout

    piped, forced = run(), run(FORCE_COLOR="1")
    assert piped.endswith("False\n")
    assert "\x1b" not in piped
    assert forced.endswith("True\n")
    assert "\x1b[32m" in forced


def test_main_returns_the_exit_code(perdure, capsys):
    assert main(["show", "x"]) == 3
    assert main(["--version"]) == 0
    capsys.readouterr()


def test_a_shell_is_offered_completion(start):
    asked = {"_PERDURE_COMPLETE": "bash_complete", "COMP_WORDS": "perdure re", "COMP_CWORD": "1"}
    child = start(env=asked)
    out, _ = child.communicate(timeout=20)
    assert out.split() == ["plain,replay", "plain,resume"]
