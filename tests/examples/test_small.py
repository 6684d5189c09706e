"""The small examples do what their first lines say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.house import tree

EXAMPLES = tree.ROOT / "examples"
SMALL = sorted(EXAMPLES.glob("*.py"))
ENVIRON = {**os.environ, "PYTHONPATH": str(tree.PACKAGE.parent)}


def start(folder, *command):
    return subprocess.Popen(
        [sys.executable, "-W", "error", *command],
        cwd=folder,
        env=ENVIRON,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder, name, *arguments):
    """The exit code and the lines that the example prints."""
    process = start(folder, EXAMPLES / name, *arguments)
    out, _ = process.communicate(timeout=30)
    return process.returncode, out.splitlines()


def test_hello_does_nothing_twice(tmp_path):
    assert run(tmp_path, "01_hello.py", "Ada") == (0, ["(greeting Ada)", "(shouting)", "HELLO, ADA!"])
    assert run(tmp_path, "01_hello.py", "Ada") == (0, ["HELLO, ADA!"])
    assert run(tmp_path, "01_hello.py")[1][-1] == "HELLO, WORLD!"


@pytest.mark.crash
def test_the_launch_survives_three_kills(tmp_path):
    ends = [run(tmp_path, "02_crash_and_resume.py") for _ in range(4)]
    assert [code for code, _ in ends] == [-signal.SIGKILL] * 3 + [0]
    said = [line for _, lines in ends for line in lines]
    for stage in (1, 2, 3):
        assert len([line for line in said if line.startswith(f"stage {stage} burns")]) == 1
        assert len([line for line in said if line.startswith(f"stage {stage} separates,")]) == 1
        assert said.count(f"stage {stage} has separated already") == 1
    assert said[-1] == "in orbit"
    assert len({line.rpartition(" ")[2] for line in said if "burns, as" in line}) == 3


def test_an_order_waits_for_approval_with_no_process_there(tmp_path):
    assert run(tmp_path, "04_approval.py", "ask", "42", "50000") == (0, ["order 42 is pending"])
    assert run(tmp_path, "04_approval.py", "work") == (0, ["somebody should look at order 42: 50000"])
    assert run(tmp_path, "04_approval.py", "approve", "42") == (0, ["order 42 is waiting"])
    assert run(tmp_path, "04_approval.py", "work") == (0, ["paying 50000"])


@pytest.mark.crash
def test_an_agent_that_is_killed_twice_pays_for_no_answer_twice(tmp_path):
    ends = [run(tmp_path, "05_agent_loop.py") for _ in range(3)]
    assert [code for code, _ in ends] == [-signal.SIGKILL] * 2 + [0]
    said = [line for _, lines in ends for line in lines]
    assert [line for line in said if line.startswith("paying")] == [f"paying for answer {n}" for n in (1, 2, 3, 4)]
    assert said[-1] == "the best was Oslo"


def test_a_fork_does_again_only_what_was_wrong(tmp_path, monkeypatch):
    assert run(tmp_path, "06_fork_to_debug.py")[1][-1] == "published [3, 2, 1]"
    monkeypatch.setitem(ENVIRON, "MENDED", "1")
    assert run(tmp_path, "06_fork_to_debug.py")[1] == ["sorting", "publishing [1, 2, 3]", "published [1, 2, 3]"]


def test_a_worker_does_what_is_handed_in(tmp_path):
    command = ["-m", "perdure", "worker", "03_engine_and_worker", "--store", tmp_path / "jobs.db"]
    worker = start(EXAMPLES, *command)
    try:
        code, lines = run(tmp_path, "03_engine_and_worker.py", "5")
        assert (code, lines[-1]) == (0, "the sum is 55")
    finally:
        worker.terminate()
        out, _ = worker.communicate(timeout=30)
    assert sorted(out.splitlines()) == [f"worker {worker.pid} measures {n}" for n in range(1, 6)]


@pytest.mark.parametrize("path", SMALL, ids=[path.name for path in SMALL])
def test_small_examples_are_small_and_listed(path):
    assert len(path.read_text("utf-8").splitlines()) <= 80
    assert f"({path.name})" in (EXAMPLES / "README.md").read_text("utf-8")


def test_no_listed_example_is_missing():
    listed = re.findall(r"\]\(([\w/.]+)\)", (EXAMPLES / "README.md").read_text("utf-8"))
    assert len(listed) == len(SMALL) + 1
    assert [name for name in listed if not (EXAMPLES / name).is_file()] == []
