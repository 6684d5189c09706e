"""The small examples do what their first lines say."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from urllib.error import URLError
from urllib.request import Request, urlopen

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


def test_reports_of_a_schedule_come_once_each_whoever_is_there(tmp_path):
    ends = [run(tmp_path, "07_schedules.py") for _ in range(2)]
    assert [code for code, _ in ends] == [0, 0]
    reports = [line for _, lines in ends for line in lines[:-1]]
    assert len(reports) == 6
    assert reports == sorted(set(reports))  # but at midnight
    assert ends[0][1][-1] == "skipped, since nobody was there: 0"


@pytest.mark.crash
def test_a_shop_that_is_killed_after_it_took_the_money_takes_it_once(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    site = f"http://127.0.0.1:{port}/orders/42"
    shop = start(tmp_path, EXAMPLES / "08_fastapi_shop.py", str(port))
    asked = served(shop, Request(f"{site}?amount=50", method="POST"))  # noqa: S310 - our own
    out, _ = shop.communicate(timeout=30)
    assert (asked, shop.returncode) == ('"order-42"', -signal.SIGKILL)
    assert out.splitlines()[-1].startswith("the money is taken")
    again = start(tmp_path, EXAMPLES / "08_fastapi_shop.py", str(port))
    try:
        (charge,) = tmp_path.glob("charge-*.json")
        payment = charge.stem.removeprefix("charge-")[:8]
        assert served(again, Request(site)) == f'"payment {payment}"'
        assert json.loads(charge.read_text()) == {"amount": 50}
        assert list(tmp_path.glob("charge-*.json")) == [charge]
    finally:
        again.terminate()
        out, _ = again.communicate(timeout=30)
    assert out.splitlines() == [f"provider: {payment} is charged already"]


def served(server, request):
    """What a server answers, once it listens."""
    pause = threading.Event()
    while server.poll() is None:
        try:
            with urlopen(request, timeout=30) as answer:  # noqa: S310 - our own
                return answer.read().decode()
        except URLError:
            pause.wait(0.02)
    return server.communicate()


@pytest.mark.crash
@pytest.mark.postgres
def test_a_fleet_does_all_the_work_though_a_worker_is_killed(tmp_path, postgres_url):
    code, (*lines, done, ends) = run(tmp_path, "09_fleet.py", postgres_url)
    assert code == 0
    assert done.startswith("24 steps for 12 parcels")
    assert ends == "ends of the workers: [-9, 0, 0]"
    # Several processes write to one pipe, and a line's end may come after another's beginning.
    said = re.findall(r"worker (\d+) (stamps|sends) parcel (\d+)(, and is killed)?", "\n".join(lines))
    (killed,) = (worker for worker, *_, end in said if end)
    doing = [what for _, *what, _ in said]
    # What the dead one was doing was done again; besides it had one other parcel in its hands.
    repeated = [what for what in doing if doing.count(what) > 1]
    assert ["sends", "6"] in repeated
    assert len(repeated) <= 4
    assert len(doing) == 24 + len(repeated) / 2
    assert [end for worker, *_, end in said if worker == killed][-1] != ""


def test_runs_go_on_under_the_code_that_they_began_under_or_are_patched(tmp_path):
    code, lines = run(tmp_path, "10_versioning.py")
    assert code == 0
    assert sorted(lines[:2]) == ["old worker: lend Emma", "old worker: order Emma by post"]
    assert lines[2:] == [
        "old worker: pay for Emma in cash", "new worker: order Ulysses by wire", "new worker: pay for Ulysses by card",
        "new worker: thanks for Emma", "new worker: check a card for Dracula", "new worker: lend Dracula",
        "new worker: thanks for Dracula",
    ]  # fmt: skip


@pytest.mark.parametrize("path", SMALL, ids=[path.name for path in SMALL])
def test_small_examples_are_small_and_listed(path):
    assert len(path.read_text("utf-8").splitlines()) <= 80
    assert f"({path.name})" in (EXAMPLES / "README.md").read_text("utf-8")


def test_no_listed_example_is_missing():
    listed = re.findall(r"\]\(([\w/.]+)\)", (EXAMPLES / "README.md").read_text("utf-8"))
    assert len(listed) == len(SMALL) + 1
    assert [name for name in listed if not (EXAMPLES / name).is_file()] == []
