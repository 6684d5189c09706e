"""Runs pytest again and again, each time in a fork that has pytest loaded and Perdure not yet.

Reads orders, a line of JSON each, from its standard input: a number, the folder to import Perdure from, the tests, the
file that takes what pytest says, and the seconds after which tests wait no longer for what they expect: without a
protection it may never come. Answers each with its number and pytest's exit code.
"""

from __future__ import annotations

import json
import os
import sys

import anyio
import apsw
import click
import hypothesis
import psycopg
import pydantic
import pytest
import rich

LOADED = (anyio, apsw, click, hypothesis, psycopg, pydantic, rich)
OPTIONS = ["-q", "-rfE", "--tb=short", "-p", "no:cacheprovider", "-p", "pytest_timeout"]
OPTIONS += ["--assert=plain"]  # that a test fails is looked at, not why: asserts need not be rewritten each time


TEARDOWN = 5
"""Seconds that a test gets beyond that, to end."""


def run(number: int, folder: str, tests: list[str], output: str, patience: float) -> None:
    """Run the tests, in the fork."""
    del number
    os.environ |= {
        "PYTHONPATH": folder,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PERDURE_TEST_PATIENCE": str(patience),
    }
    sys.path.insert(0, folder)
    out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    # A place of its own: in the usual one, each would first clear away what others have left.
    code = pytest.main([*OPTIONS, f"--timeout={patience + TEARDOWN}", f"--basetemp={output}-files", *tests])
    import perdure

    sys.stdout.write(f"perdure is {perdure.__file__}\n")
    sys.stdout.flush()
    os._exit(code)


def serve() -> None:
    """Do as told until nobody tells any more."""
    assert "perdure" not in sys.modules
    while line := sys.stdin.readline():
        order = json.loads(line)
        if (pid := os.fork()) == 0:
            run(**order)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{order['number']} {os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
