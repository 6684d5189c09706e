"""The plugin as pytest finds it: by its entry point, in a project of somebody else's."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.docs.pages import DOCS, fences
from tests.house import tree

SHOP = """
from perdure import sleep, step, workflow

@step
async def charge(amount: int) -> str:
    raise ConnectionError(amount)

@workflow
async def fulfil(amount: int) -> str:
    payment = await charge(amount)
    await sleep("14d")
    return payment
"""
CONFIG = """
[pytest]
filterwarnings = error
addopts = -p no:cacheprovider -rA --strict-markers
asyncio_default_fixture_loop_scope = function
"""
PAGE = DOCS / "how-to" / "test-a-workflow.md"


class Project:
    """A folder with tests, and pytest in it."""

    def __init__(self, folder):
        self.folder = folder / "project"
        self.folder.mkdir()
        self._site = folder / "site"
        entries = tree.project()["project"]["entry-points"]["pytest11"]
        for name, text in (
            ("METADATA", "Metadata-Version: 2.1\nName: perdure\nVersion: 0\n"),
            ("entry_points.txt", "[pytest11]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())),
        ):
            path = self._site / "perdure-0.dist-info" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.write("pytest.ini", CONFIG)
        self.write("shop.py", SHOP)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self):
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PERDURE"))}
        environ["PYTHONPATH"] = os.pathsep.join([str(self._site), str(tree.PACKAGE.parent), str(self.folder)])
        return subprocess.run(
            [sys.executable, "-m", "pytest"],
            cwd=self.folder,
            env=environ,
            check=False,
            capture_output=True,
            text=True,
            timeout=50,
        )

    def counts(self):
        """How many tests came to which end."""
        done = self.run()
        last = done.stdout.splitlines()[-1] if done.stdout else ""
        found = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|errors?|skipped)", last)}
        return found, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_perdure_is_loaded_only_for_tests_that_use_it(project):
    project.write(
        "test_it.py",
        "import sys\n"
        "def test_before():\n    assert '_perdure_pytest' in sys.modules\n    assert 'perdure' not in sys.modules\n"
        "def test_then(perdure_env):\n    assert 'perdure' in sys.modules\n",
    )
    counts, output = project.counts()
    assert counts == {"passed": 2}, output


def test_the_fixture_serves_plain_tests_those_of_pytest_asyncio_and_those_of_anyio(project):
    project.write(
        "test_it.py",
        """
import pytest
from shop import charge, fulfil

def test_plain(perdure_env):
    with perdure_env(workflows=[fulfil]) as env:
        env.override(charge, "paid")
        assert env.run(fulfil, 5) == "paid"

@pytest.mark.asyncio
async def test_asyncio(perdure_env):
    async with perdure_env(workflows=[fulfil]) as env:
        env.override(charge, "paid")
        assert await env.run(fulfil, 5) == "paid"

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_anyio(perdure_env):
    async with perdure_env(workflows=[fulfil]) as env:
        env.override(charge, "paid")
        assert await env.run(fulfil, 5) == "paid"
""",
    )
    counts, output = project.counts()
    assert counts == {"passed": 3}, output


def test_a_failing_test_shows_what_its_runs_did_and_one_that_passes_does_not(project):
    project.write(
        "test_it.py",
        """
import pytest
from shop import charge, fulfil

@pytest.mark.parametrize("expected", ["paid", "not this"])
def test_plain(perdure_env, expected):
    with perdure_env(workflows=[fulfil]) as env:
        env.override(charge, "paid")
        assert env.run(fulfil, 5, run_id="order-42") == expected
""",
    )
    counts, output = project.counts()
    assert counts == {"failed": 1, "passed": 1}, output
    assert output.count("runs of perdure_env") == 1
    assert re.search(r"fulfil order-42: completed\n +1 +2030-01-01 12:00:00.000 +run_created\n", output)
    assert "step_completed  charge#1" in output


HISTORIES = """
import pytest
from perdure.testing import replay_history

@pytest.mark.perdure_histories("exported")
def test_old_runs(perdure_history):
    replay_history(perdure_history)
"""


def test_a_test_is_repeated_for_every_history_of_its_folder(project):
    project.write("test_old.py", HISTORIES)
    project.write("exported/broken.json", "{}")
    project.write("exported/order-42.json", _export(project))
    counts, output = project.counts()
    assert counts == {"failed": 1, "passed": 1}, output
    assert "PASSED test_old.py::test_old_runs[order-42]" in output
    assert "FAILED test_old.py::test_old_runs[broken]" in output


def test_without_any_history_nothing_would_be_tested_and_that_is_an_error(project):
    project.write("test_old.py", HISTORIES.replace('@pytest.mark.perdure_histories("exported")\n', ""))
    done = project.run()
    assert done.returncode != 0
    assert re.search(r"there are no histories in \S+histories: write some with `perdure export", done.stdout)


def _export(project):
    code = """
import asyncio, json
from perdure.model.histories import dump
from perdure.testing import env
from shop import charge, fulfil

with env(workflows=[fulfil]) as kit:
    kit.override(charge, "paid")
    kit.run(fulfil, 5, run_id="order-42")
    handle = kit.engine.get("order-42")
    print(json.dumps(dump(handle.row(), list(handle.events()), lambda digest: None)))
"""
    project.write("export.py", code)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree.PACKAGE.parent), str(project.folder)])}
    return subprocess.run(
        [sys.executable, "export.py"], cwd=project.folder, env=environ, check=True, capture_output=True, text=True
    ).stdout


def test_the_tests_that_the_page_shows_pass(project):
    named = [fence for fence in fences(PAGE) if fence.title is not None]
    for fence in named:
        project.write(fence.title, fence.text)
    counts, output = project.counts()
    assert counts.get("passed", 0) > 3, output
    assert set(counts) == {"passed"}, output
