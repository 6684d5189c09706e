"""``perdure init``: the project does what its README says, and nothing that was there is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from perdure.cli.beginning import FILES
from perdure.cli.main import cli
from perdure.model.records import Status
from perdure.store.open import open_store
from tests.cli.conftest import until
from tests.docs.pages import Command, Shell, commands, fences, fits
from tests.house import tree

pytestmark = pytest.mark.only("sqlite")  # a project begins with a file


@pytest.fixture
def init(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(cli, ["init", *args], prog_name="perdure", catch_exceptions=False)


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    shell.close()


def test_a_project_is_run_killed_resumed_and_tested_as_its_readme_says(shell):
    assert shell.type(commands("$ perdure init")[0])[0] == f"✓ a project is in {shell.folder.resolve()}"
    run, signal, again, tests = (
        command for fence in fences(shell.folder / "README.md") for command in commands(fence.text)
    )
    assert (run.text, tests.text) == (again.text, "pytest")
    assert fits(run.expected, shell.type(Command(f"{run.text} &", run.expected)))
    until(lambda: status(shell.folder / "perdure.db") is Status.WAITING, shell.background)
    shell.close()  # with SIGKILL
    for command in (signal, again):
        found = shell.type(command)
        assert fits(command.expected, found), found
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:asyncio", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=shell.folder, check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stdout
    assert {path.name for path in shell.folder.iterdir()} - set(FILES) <= {
        "perdure.db",
        "perdure.db-lock",
        "__pycache__",
    }


def status(store):
    with open_store(store, create=False) as opened:
        return opened.get_run("order-42").status


def test_it_says_as_json_what_it_made_and_makes_the_same_each_time(init, tmp_path):
    told = json.loads(init("a/b", "--json").stdout)
    assert told["folder"] == str(tmp_path / "a" / "b")
    assert told["next"] == ["cd a/b", "perdure run workflows:fulfil --input 42 --run-id order-42"]
    assert sorted(told["files"]) == sorted(path.name for path in (tmp_path / "a" / "b").iterdir())
    assert init("c").exit_code == 0
    for name in FILES:
        assert (tmp_path / "c" / name).read_bytes() == (tmp_path / "a" / "b" / name).read_bytes()


def test_nothing_that_is_there_is_overwritten_and_nothing_half_is_left(init, tmp_path):
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    (tmp_path / ".gitignore").symlink_to("nowhere")
    told = init()
    assert told.exit_code == 2
    assert told.stderr.startswith(
        f"perdure: README.md, .gitignore are in {tmp_path} already, and nothing is overwritten"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitignore", "README.md"]
    assert "`perdure init shop`" in told.stderr
    assert init("README.md/shop").exit_code == 2


def test_a_project_that_cannot_be_written_whole_is_not_there_at_all(tmp_path):
    line = f"ulimit -f 1; exec {sys.executable} -W error -m perdure init shop"  # no file may have more than a block
    environ = os.environ | {"PYTHONPATH": str(tree.PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["/bin/sh", "-c", line]
    done = subprocess.run(command, cwd=tmp_path, env=environ, check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert done.stderr.startswith(f"perdure: no project can be made in {tmp_path / 'shop'}: File too large")
    assert list((tmp_path / "shop").iterdir()) == []
