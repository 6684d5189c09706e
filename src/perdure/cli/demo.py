"""``perdure demo``: a workflow is killed in the middle and resumed by the same call; what is promised is checked."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from perdure.cli.events import tell
from perdure.cli.exits import Exit
from perdure.cli.opening import existing_store, find_run, read_log
from perdure.cli.options import debug_option, screen
from perdure.cli.render import Column, Part
from perdure.cli.telling import Teller
from perdure.cli.words import clock, span
from perdure.clock import SystemClock
from perdure.demo.review import RUN_ID, Heartbeat
from perdure.errors import PerdureError
from perdure.model.history import fold

if TYPE_CHECKING:
    from perdure.cli.render import Screen
    from perdure.model.records import Event

FAST, SLOW = "score[fast-a]", "score[slow-b]"
RESULT = "slow-b before fast-a"
PATIENCE = 30.0
"""Seconds after which something that should have happened has not."""
TICK = 0.005
FILES = ("perdure.db", "perdure.db-wal", "perdure.db-shm", "perdure.db-lock")
_BEATS = (Column(), Column(), Column(), Column())


class Unproven(PerdureError):
    """The demonstration could not be carried through."""

    code = "unproven"


@click.command(epilog="Example: perdure demo --keep /tmp/demo")
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Leave the store and the heartbeats in this new directory.",
)
@click.option(
    "--forget", is_flag=True, hidden=True, help="Delete the store before resuming, so that the proof must fail."
)
@debug_option
def demo(*, keep: Path | None, forget: bool) -> Exit:
    """Kill a workflow in the middle and watch it go on.

    Two branches are scored side by side in a child process, which is killed with SIGKILL as soon as the fast one is
    committed. The same call in a fresh process resumes the run. Exits with 1 if anything is not as promised.
    """
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise click.UsageError(f"{keep} is not empty: name a directory that is, or that is not there yet")
    folder = Path(tempfile.mkdtemp(prefix="perdure-demo-")) if keep is None else keep
    folder.mkdir(parents=True, exist_ok=True)
    try:
        demonstration = Demonstration(folder.resolve(), screen())
        proven = demonstration.show(forget=forget)
        demonstration.farewell(kept=keep is not None)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    return Exit.OK if proven else Exit.NO


class Demonstration:
    """One showing.

    Args:
        folder: where store and heartbeats go.
        out: where the story is told.
    """

    def __init__(self, folder: Path, out: Screen) -> None:
        self.store = folder / "perdure.db"
        self.heartbeats = folder / "heartbeats"
        self.messages = folder / "messages"
        self.out = out
        self._clock = SystemClock()
        self._told = 0

    def show(self, *, forget: bool) -> bool:
        """Tell the whole story; True if everything was as promised."""
        out = self.out
        out.gap()
        out.line(Part("Kill a workflow in the middle, and watch it go on", "title"))
        out.gap()
        out.text(
            "Two candidates are scored side by side: fast-a takes 0.2 s, slow-b takes 2 s. Then the ranking is "
            "published. Every tool call leaves a heartbeat in a file, so nothing has to be believed.",
            indent=2,
        )
        self._chapter(1, "The first process")
        first = self._start()
        try:
            committed = self._wait_for_fast(first)
        except BaseException:
            first.kill()
            first.wait()
            raise
        self._say(committed.at, first.pid, f"{FAST} is committed", "good")
        killed_at = self._clock.now()
        first.kill()
        died_of = first.wait()
        if first.stdout is not None:
            first.stdout.close()
        self._tell_heartbeats()
        self._say(
            killed_at, first.pid, f"SIGKILL {span(killed_at - committed.at)} later, slow-b is still at work", "bad"
        )
        before = Heartbeat.read(self.heartbeats)

        self._chapter(2, "What is on disk now")
        self._events(self.store)
        if forget:
            for name in FILES:
                (self.store.parent / name).unlink(missing_ok=True)

        self._chapter(3, "The same call, in a fresh process")
        second = self._start()
        result = self._finish(second)
        after = Heartbeat.read(self.heartbeats)[len(before) :]

        self._chapter(4, "The proof")
        proven = self._prove(died_of, result, before, after)
        self._chapter(5, f"perdure events {RUN_ID}")
        self._events(self.store)
        self._chapter(6, f"perdure replay {RUN_ID}")
        return self._replay() and proven

    def farewell(self, *, kept: bool) -> None:
        """Say where to go on."""
        self.out.gap()
        if kept:
            self.out.line("Look at it yourself:", indent=2)
            self.out.line(Part(f"perdure show {RUN_ID} --store {self.store}", "strong"), indent=4)
        else:
            self.out.line(Part("perdure demo --keep DIR", "strong"), " keeps the store for you to look at.", indent=2)
        self.out.gap()

    # -- the processes

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "perdure.demo", str(self.store), str(self.heartbeats)]
        with self.messages.open("a") as messages:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=messages, text=True)  # noqa: S603 - our own module

    def _wait_for_fast(self, child: subprocess.Popen[str]) -> Event:
        """Wait until the fast branch is committed, as the store tells, while the slow one is at work."""
        deadline = self._clock.monotonic() + PATIENCE
        while not {FAST, SLOW} <= {beat.step for beat in self._tell_heartbeats()}:
            self._still_going(child, deadline)
        with existing_store(str(self.store)) as opened:
            row = find_run(opened, RUN_ID)
            while True:
                view = fold(read_log(opened, row))
                step = view.steps.get(FAST)
                if step is not None and step.result is not None:
                    return step.result
                self._still_going(child, deadline)

    def _still_going(self, child: subprocess.Popen[str], deadline: float) -> None:
        if child.poll() is not None:
            said = self.messages.read_text("utf-8", "replace").strip()
            _fail(f"the child process ended by itself with {child.returncode}", said)
        if self._clock.monotonic() > deadline:
            _fail(f"nothing happened for {PATIENCE:g} s")
        time.sleep(TICK)

    def _finish(self, child: subprocess.Popen[str]) -> str:
        """Wait for a process to end by itself and return what it printed."""
        deadline = self._clock.monotonic() + PATIENCE
        try:
            while child.poll() is None:
                self._tell_heartbeats()
                if self._clock.monotonic() > deadline:
                    _fail(f"the resumed run did not end within {PATIENCE:g} s")
                time.sleep(TICK)
        finally:
            child.kill()
            out, _ = child.communicate()
        self._tell_heartbeats()
        self._say(
            self._clock.now(), child.pid, f"returns {out.strip()!r}" if child.returncode == 0 else "fails", "strong"
        )
        return out.strip()

    # -- the story

    def _chapter(self, number: int, title: str) -> None:
        self.out.gap()
        self.out.line(Part(f"{number}  ", "dim"), Part(title, "strong"))
        self.out.gap()

    def _tell_heartbeats(self) -> list[Heartbeat]:
        beats = Heartbeat.read(self.heartbeats)
        for beat in beats[self._told :]:
            self._say(beat.at, beat.pid, f"heartbeat {beat.step}, attempt {beat.attempt}, key {beat.key[:8]}", "busy")
        self._told = len(beats)
        return beats

    def _say(self, at: int, pid: int, what: str, style: str) -> None:
        self.out.line(Part(f"{clock(at, at)}  pid {pid}  ", "dim"), Part(what, style), indent=3)

    def _events(self, store: Path) -> None:
        with existing_store(str(store)) as opened:
            tell(self.out, Teller(self._clock.now()), read_log(opened, find_run(opened, RUN_ID)), indent=3)

    def _prove(self, died_of: int, result: str, before: list[Heartbeat], after: list[Heartbeat]) -> bool:
        fast = [len([beat for beat in beats if beat.step == FAST]) for beats in (before, after)]
        slow = [beat for beat in (*before, *after) if beat.step == SLOW]
        keys, attempts = {beat.key for beat in slow}, {beat.attempt for beat in slow}
        others = {beat.key for beat in (*before, *after) if beat.step != SLOW}
        checks = [
            ("the first process died of SIGKILL", f"signal {-died_of}", died_of == -signal.SIGKILL),
            ("the result is right", repr(result), result == RESULT),
            ("fast-a was not scored again", f"{fast[0]} heartbeat before the kill, {fast[1]} after", fast == [1, 0]),
            ("slow-b was scored again", f"{len(slow)} heartbeats", len(slow) == 2),  # noqa: PLR2004 - once in each process
            ("… as the same attempt", f"attempt {', '.join(map(str, sorted(attempts)))}", attempts == {1}),
            ("… with the same idempotency key", ", ".join(sorted(key[:8] for key in keys)), len(keys) == 1),
            ("… which no other step has", f"{len(others)} others", keys.isdisjoint(others)),
        ]
        rows = [
            (Part("✓", "good") if held else Part("✗", "bad"), Part(law, "" if held else "bad"), Part(found, "dim"))
            for law, found, held in checks
        ]
        self.out.table([Column(), Column(), Column(flexible=True)], rows, indent=3)
        return all(held for _, _, held in checks)

    def _replay(self) -> bool:
        from perdure.cli.replays import show_replay, stored_replay
        from perdure.replaying import Verdict

        with existing_store(str(self.store)) as opened:
            replayed = stored_replay(opened, RUN_ID, app=None)
        show_replay(self.out, replayed, indent=3)
        return replayed.verdict is Verdict.SAME


def _fail(why: str, said: str = "") -> NoReturn:
    raise Unproven(f"the demonstration could not be carried through: {why}", advice=said)
