"""What is shown on a terminal while something takes its time: a line on stderr that goes when it is done."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from perdure.cli.render import Part as _Part
from perdure.cli.render import Screen, cut
from perdure.cli.words import compact, count, span
from perdure.hooks import Hooks
from perdure.model import payloads

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from typing import TextIO, TypeVar

    from perdure.hooks import Notice

    T = TypeVar("T")

EVERY = 0.1
"""Seconds between two pictures of the line."""
AFTER = 0.5
"""Seconds after which something takes its time."""
_WIDTH = 24
_CLEAR = "\r\x1b[K"


class Line:
    """One line at the bottom of a terminal; nothing where there is none."""

    def __init__(self, stream: TextIO | None = None, *, after: float = AFTER, every: float = EVERY) -> None:
        self._stream = sys.stderr if stream is None else stream
        screen = Screen(self._stream, os.environ)
        self.is_shown = screen.is_terminal and os.environ.get("TERM") != "dumb"
        self._width = screen.width or 80
        self._after, self._every = after, every
        self._began = self._last = time.perf_counter()
        self._is_there = False

    @property
    def took(self) -> float:
        """Seconds since it was made."""
        return time.perf_counter() - self._began

    def show(self, text: Callable[[], str], *, now: bool = False) -> None:
        """Draw the line, unless it was drawn a moment ago, or all goes quickly."""
        moment = time.perf_counter()
        if not self.is_shown or (not now and (moment - self._began < self._after or moment - self._last < self._every)):
            return
        self._last, self._is_there = moment, True
        parts = cut([_Part(text())], self._width - 1)
        self._stream.write(_CLEAR + "".join(part.text for part in parts))
        self._stream.flush()

    def clear(self) -> None:
        """Let it go."""
        if self._is_there:
            self._is_there = False
            self._stream.write(_CLEAR)
            self._stream.flush()


def advancing(
    items: Iterable[T], what: str, total: Callable[[], int] | None = None, line: Line | None = None
) -> Iterator[T]:
    """Iterate over something, and show how far that is.

    Args:
        items: what to iterate over.
        what: the noun for one of them.
        total: how many there are, asked for where it is shown; it may have become more meanwhile.
        line: where; by default a line on stderr.
    """
    line = Line() if line is None else line
    of = total() if total is not None and line.is_shown else 0
    try:
        for number, item in enumerate(items, 1):
            yield item
            line.show(partial(bar, number, of, what, line))
    finally:
        line.clear()


def bar(done: int, of: int, what: str, line: Line) -> str:
    """Return how far something is: a bar, how many are done, and about how long the others take.

    Args:
        done: how many are done.
        of: of how many; 0: that is not known.
        what: the noun for one of them.
        line: where it is shown, for how long already.
    """
    took = line.took
    told = f"{count(done, what)} in {span(round(took * 1e6))}"
    if not of:
        return told
    share = min(done / of, 1.0)
    filled = round(share * _WIDTH)
    left = f", about {span(round(took / share * (1 - share) * 1e6))} to go" if 0 < share < 1 else ""
    return f"{'█' * filled}{'░' * (_WIDTH - filled)} {share:4.0%}  {told} of {of:,}{left}"


class StepsLine(Hooks):
    """Shows the steps of one run while it is executed here."""

    def __init__(self, run_id: str, line: Line) -> None:
        self._run_id, self._line = run_id, line
        self._done: Counter[str] = Counter()
        self._going: dict[str, float] = {}
        self._said = ""

    def run_claimed(self, notice: Notice) -> None:
        """The run goes on: what it waited for is there."""
        if notice.run_id == self._run_id:
            self._said = ""

    def run_suspended(self, notice: Notice) -> None:
        """The run waits."""
        awaited = payloads.fields(notice.event.payload).get("awaits")
        if notice.run_id == self._run_id and awaited:
            self._said = f"waits for the signal {', '.join(awaited)}"

    def step_started(self, notice: Notice) -> None:
        """A step takes longer."""
        if notice.key is not None and notice.run_id == self._run_id:
            self._going.setdefault(notice.key, time.perf_counter())

    def step_completed(self, notice: Notice) -> None:
        """A step is done."""
        self._end(notice, "done")

    def step_failed(self, notice: Notice) -> None:
        """A step has failed, perhaps to be tried again."""
        self._end(notice, "failed" if notice.next_at is None else "tried again")

    def progress(self, notice: Notice) -> None:
        """A step says how far it is."""
        if notice.run_id == self._run_id and notice.value is not None:
            self._said = compact(notice.value, 40)

    def _end(self, notice: Notice, how: str) -> None:
        if notice.run_id == self._run_id:
            self._going.pop(notice.key or "", None)
            self._done[how] += 1
            self._said = ""

    def text(self) -> str:
        """Return the line."""
        told = [count(self._done["done"], "step") + " done"]
        told += [f"{self._done[how]} {how}" for how in ("failed", "tried again") if self._done[how]]
        now = time.perf_counter()
        going = [f"{key} for {span(round((now - since) * 1e6))}" for key, since in list(self._going.items())[:3]]
        if len(self._going) > len(going):
            going.append(f"{len(self._going) - len(going)} more")
        parts = [", ".join(told), *going, self._said, span(round(self._line.took * 1e6))]
        return f"{self._run_id[:40]}  " + "  ·  ".join(part for part in parts if part)


@contextmanager
def steps_shown(run_id: str) -> Generator[list[Hooks]]:
    """Show the steps of a run for the block; gives the hooks that an engine is to tell."""
    import threading

    line = Line()
    if not line.is_shown:
        yield []
        return
    shown, over = StepsLine(run_id, line), threading.Event()

    def draw() -> None:
        while not over.wait(EVERY):
            line.show(shown.text)

    thread = threading.Thread(target=draw, name="perdure-progress", daemon=True)
    thread.start()
    try:
        yield [shown]
    finally:
        over.set()
        thread.join()
        line.clear()


__all__ = ["Line", "StepsLine", "advancing", "bar", "steps_shown"]
