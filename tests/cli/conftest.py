from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest
from click.testing import CliRunner

from perdure.cli.main import cli
from perdure.errors import StoreUnreachable
from perdure.store.open import open_store
from tests.house import tree

SHOP = "tests.cli.shop"
PATIENCE = 20.0


@pytest.fixture
def store(new_store, tmp_path, monkeypatch):
    """Where the commands find their store; nothing is there yet."""
    address = new_store()
    monkeypatch.setenv("PERDURE_STORE", address)
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    monkeypatch.setenv("GATES", str(tmp_path))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    return address


@pytest.fixture
def perdure(store):
    """Execute a command line here; the result has exit_code, stdout and stderr."""

    def execute(*args, **options):
        return CliRunner().invoke(
            cli, [str(arg) for arg in args], prog_name="perdure", catch_exceptions=False, **options
        )

    return execute


@pytest.fixture
def start(store, tmp_path):
    """Start a command line in a process of its own; what is still running is killed at the end."""
    children = []

    def begin(*args, module="perdure", cwd=tree.ROOT, **options):
        command = [sys.executable, "-W", "error", "-m", module, *map(str, args)]
        options.setdefault("stdout", subprocess.PIPE)
        environ = {
            **os.environ,
            "PYTHONPATH": str(tree.PACKAGE.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            **options.pop("env", {}),
        }
        child = subprocess.Popen(command, cwd=cwd, env=environ, stderr=subprocess.PIPE, text=True, **options)
        children.append(child)
        return child

    yield begin
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def effects(tmp_path):
    """What steps have left so far."""

    def read():
        file = tmp_path / "effects"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    return read


@pytest.fixture
def gate(tmp_path):
    """Let steps go on that wait for this."""

    def let(what):
        (tmp_path / what).touch()

    return let


@pytest.fixture
def log(store):
    """Kinds and keys of a run's events."""

    def read(run_id):
        try:
            opened = open_store(store, create=False)
        except StoreUnreachable:  # nobody has made it yet
            return []
        with opened:
            row = opened.get_run(run_id)
            return [] if row is None else opened.read_events(row.run_key)

    return read


def until(condition, child=None, said=None, patience=PATIENCE):
    """Wait for something that another process does; ``said``: gives what it has said, if not its pipes."""
    pause = threading.Event()
    deadline = time.monotonic() + patience  # noqa: TID251 - another process's time
    while not (found := condition()):
        if child is not None and child.poll() is not None:
            pytest.fail(f"the process ended with {child.returncode}: {child.communicate() if said is None else said()}")
        if time.monotonic() > deadline:  # noqa: TID251 - another process's time
            pytest.fail("it did not happen" + ("" if said is None else f": {said()}"))
        pause.wait(0.01)
    return found


def order(run_id="order-1", amount=1, workflow="fulfil"):
    """Arguments of `perdure run` for an order."""
    return ["run", f"{SHOP}:{workflow}", "--input", f'{{"id":"{run_id}","amount":{amount}}}', "--run-id", run_id]
