"""What is live on a terminal: top, tail, the line that shows how far a run is; and completion."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest

from perdure import Engine
from perdure.cli.exits import Exit
from perdure.cli.progress import Line, advancing
from tests.cli import shop
from tests.cli.conftest import PATIENCE
from tests.house import tree

SHOP = "tests.cli.shop:fulfil"


class Terminal:
    """A command in a terminal of its own, and what it has written there."""

    def __init__(self, *args, env=None):
        self.written = ""
        self._master, slave = pty.openpty()
        environ = {**os.environ, "PYTHONPATH": str(tree.PACKAGE.parent), "TERM": "xterm-256color", **(env or {})}
        environ.pop("NO_COLOR", None) if env is None else None
        self.process = subprocess.Popen(
            [sys.executable, "-m", "perdure", *args],
            stdin=slave, stdout=slave, stderr=slave, cwd=tree.ROOT, env=environ, start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def until(self, pattern):
        """Read until something is there, or the command has ended."""
        until = time.monotonic() + PATIENCE  # noqa: TID251 - of another process
        while not (found := re.search(pattern, self.written)):
            assert time.monotonic() < until, self.written  # noqa: TID251
            if not select.select([self._master], [], [], 0.1)[0]:
                continue
            try:
                self.written += os.read(self._master, 65536).decode("utf-8", "replace")
            except OSError:
                break
        return found

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(store):
    opened = []

    def begin(*args, **options):
        opened.append(Terminal(*args, **options))
        return opened[-1]

    yield begin
    for one in opened:
        one.close()


@pytest.fixture
def ran(perdure):
    """A store with a run that has completed and one that has failed."""
    assert perdure("run", SHOP, "--input", '{"id": "1"}', "--run-id", "good").exit_code == Exit.OK
    assert perdure("run", SHOP, "--input", '{"id": "2", "amount": 200}', "--run-id", "bad").exit_code == Exit.NO


def wait(store, run_id):
    """Have a run that nobody executes."""

    async def main():
        async with Engine(store).client() as engine:
            await engine.enqueue(shop.nap, shop.Order(id="1"), run_id=run_id)

    asyncio.run(main())


class TestTop:
    @pytest.mark.usefixtures("ran")
    def test_it_shows_what_is_there_and_what_is_in_trouble(self, perdure):
        told = perdure("top", "--once")
        assert told.exit_code == Exit.OK, told.stderr
        assert "1 completed   1 failed" in told.stdout
        assert "no worker" in told.stdout
        assert re.search(r"in trouble\nRUN .*\nbad +fulfil +failed", told.stdout)
        assert "\x1b" not in told.stdout

    @pytest.mark.usefixtures("ran")
    def test_the_same_as_json(self, perdure):
        said = json.loads(perdure("top", "--json").stdout)
        assert said["counts"]["by_status"]["completed"] == 1
        assert said["lately"]["buckets"][0]["failed"] == 1
        assert [row["run_id"] for row in said["in_trouble"]] == ["bad"]

    @pytest.mark.usefixtures("ran")
    @pytest.mark.only("sqlite")
    def test_on_a_terminal_it_follows_and_gives_the_screen_back(self, perdure, terminal):
        seen = terminal("top", "--every", "0.1")
        seen.until(r"1.{0,20} completed")
        assert "\x1b[?1049h" in seen.written
        perdure("run", SHOP, "--input", '{"id": "2"}', "--run-id", "more")
        seen.until(r"2.{0,20} completed")
        seen.process.send_signal(signal.SIGINT)
        seen.until(r"\x1b\[\?1049l")
        assert seen.process.wait(PATIENCE) == Exit.INTERRUPTED


class TestTail:
    @pytest.mark.usefixtures("ran")
    def test_it_begins_with_the_last_events_and_goes_on_with_all_runs(self, start, perdure, store):
        wait(store, "waiting")
        child = start("tail", "--json", "--last", "1000", stdout=subprocess.PIPE)
        first = json.loads(child.stdout.readline())
        assert (first["run_id"], first["kind"], first["workflow"]) == ("waiting", "run_created", "nap")
        perdure("run", SHOP, "--input", '{"id": "2"}', "--run-id", "more")
        seen = []
        for line in child.stdout:
            seen.append(json.loads(line))
            if seen[-1]["kind"] == "run_completed":
                break
        assert {one["run_id"] for one in seen} == {"more"}
        assert [one["seq"] for one in seen] == list(range(1, len(seen) + 1))

    @pytest.mark.usefixtures("ran")
    def test_what_is_chosen_is_all_that_is_shown(self, start, perdure, store):
        wait(store, "waiting")
        child = start("tail", "--id-prefix", "w", stdout=subprocess.PIPE)
        lines = [child.stdout.readline(), child.stdout.readline()]
        assert "EVENT" in lines[0]
        assert "run_created" in lines[1]
        perdure("run", SHOP, "--input", '{"id": "2"}', "--run-id", "more")
        perdure("run", "tests.cli.shop:plain", "--run-id", "wanted")
        for line in child.stdout:
            lines.append(line)
            if "run_completed" in line:
                break
        assert not any("more" in line for line in lines)


@pytest.mark.only("sqlite")
class TestLines:
    def test_a_run_on_a_terminal_shows_its_steps_and_leaves_nothing(self, terminal):
        seen = terminal("run", "tests.cli.shop:slow", "--input", '{"id": "1"}', "--run-id", "r")
        seen.until(r"1 step done .*hold#1 for .*holding on")
        (Path(os.environ["GATES"]) / "hold").touch()
        seen.until("payment-1 held")
        assert seen.process.wait(PATIENCE) == Exit.OK
        last = seen.written.rpartition("\r\x1b[K")[2]
        assert last.strip() == "payment-1 held"

    @pytest.mark.only("sqlite")
    def test_a_run_that_waits_says_what_for_until_that_is_there(self, terminal, perdure):
        seen = terminal("run", "tests.cli.shop:asks", "--run-id", "q")
        seen.until(r"0 steps done .*waits for the signal approved")
        assert re.search(r"waits for +the signal 'approved', until ", perdure("show", "q").stdout)
        assert perdure("signal", "q", "approved", "true").exit_code == 0
        seen.until("true")
        assert seen.process.wait(PATIENCE) == Exit.OK

    def test_where_there_is_no_terminal_nothing_is_drawn(self, perdure):
        told = perdure("run", SHOP, "--input", '{"id": "1"}')
        assert "\x1b" not in told.stdout + told.stderr

    def test_a_bar_knows_how_far_it_is_and_goes(self, monkeypatch):
        class Tty(StringIO):
            def isatty(self):
                return True

        monkeypatch.setenv("TERM", "xterm")
        stream = Tty()
        line = Line(stream, after=-1, every=-1)
        assert list(advancing(range(4), "run", lambda: 4, line)) == [0, 1, 2, 3]
        written = stream.getvalue()
        assert " 50%  2 runs in " in written
        assert "100%" in written
        assert written.endswith("\r\x1b[K")
        monkeypatch.setenv("TERM", "dumb")
        assert not Line(stream).is_shown


def completed(words):
    """What bash is told when the last of some words is to be completed."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_PERDURE_COMPLETE": "bash_complete"}
    return subprocess.run(
        [sys.executable, "-m", "perdure"], env={**os.environ, **asked, "PYTHONPATH": str(tree.PACKAGE.parent)},
        capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_what_a_shell_needs_is_printed(self, perdure, shell):
        told = perdure("completion", shell)
        assert told.exit_code == Exit.OK
        assert "_PERDURE_COMPLETE" in told.stdout

    @pytest.mark.usefixtures("ran")
    def test_ids_of_runs_are_offered(self):
        assert completed("perdure show go").stdout.split() == ["plain,good"]

    @pytest.mark.usefixtures("store")
    def test_without_a_store_nothing_is_offered_and_nothing_is_said(self):
        done = completed("perdure show go")
        assert (done.stdout.strip(), done.stderr) == ("", "")


@pytest.mark.only("sqlite")
def test_how_far_it_is_with_many_runs_is_shown_on_a_terminal_without_a_colour_nobody_wants(store, terminal):
    async def main():
        async with Engine(store).client() as engine:
            await engine.enqueue_many(shop.nap, [shop.Order(id=str(number)) for number in range(100)])

    asyncio.run(main())
    one = terminal("cancel", "--workflow", "nap", "--yes", "--store", store, env={"NO_COLOR": "1"})
    assert one.until(r"░ +0%  0 runs in .* of 100")
    assert one.until(r"cancel: 100 runs")
    assert not re.search(r"\x1b\[[0-9;]*m", one.written)
