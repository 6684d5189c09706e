"""Runs pytest again and again, each time in a fork that has pytest loaded and Perdure not yet.

Reads orders, a line of JSON each, from its standard input: a number, the folder to import Perdure from, the tests, the
file that takes what pytest says, and the seconds after which tests wait no longer for what they expect: without a
protection it may never come. Answers each with its number and pytest's exit code.
"""

from __future__ import annotations

import gc
import json
import multiprocessing.context
import os
import sys
from contextlib import redirect_stdout

import anyio
import apsw
import click
import cronsim
import hypothesis
import psycopg
import pydantic
import pytest
import rich

# What Pydantic is asked for, it imports only then.
LOADED = (anyio, apsw, click, cronsim, hypothesis, multiprocessing.context, psycopg, pydantic.RootModel, rich)
OPTIONS = ["-q", "-rfE", "--tb=short", "-p", "no:cacheprovider", "-p", "pytest_timeout"]
OPTIONS += ["--assert=plain"]  # that a test fails is looked at, not why: asserts need not be rewritten each time


BESIDES = 8
"""Seconds that a test gets beyond that, to be set up and to end."""


def run(number: int, folder: str, tests: list[str], output: str, patience: float) -> None:
    """Run the tests, in the fork."""
    del number
    os.environ |= {
        "PYTHONPATH": folder,
        "PERDURE_TEST_PATIENCE": str(patience),
    }
    sys.path.insert(0, folder)
    out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    # A place of its own: in the usual one, each would first clear away what others have left.
    code = pytest.main([*OPTIONS, f"--timeout={patience + BESIDES}", f"--basetemp={output}-files", *tests])
    import perdure

    sys.stdout.write(f"perdure is {perdure.__file__}\n")
    sys.stdout.flush()
    os._exit(code)


def serve() -> None:
    """Do as told until nobody tells any more."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):  # noqa: PTH123
        pytest.main([*OPTIONS, "--noconftest", "-c", os.devnull, "--version"])  # which loads all of pytest
    assert "perdure" not in sys.modules
    gc.collect()
    gc.freeze()  # forks need not look through all that is loaded each time they collect garbage
    while line := sys.stdin.readline():
        order = json.loads(line)
        if (pid := os.fork()) == 0:
            run(**order)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{order['number']} {os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
