"""The ledger: a file outside the engine in which bodies say that they begin and end, and where effects are counted.

One line per entry, appended whole (O_APPEND). After each line a byte goes into a FIFO, the bell, so that a test waits
for what it wants to see without polling. Bodies may wait at a gate, a FIFO too, until the test lets them through.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from perdure.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure import StepContext

CLOCK = SystemClock()
STOLEN = 0.1
"""Seconds after which who waits for the bell looks anyway: of several who wait, one may take what it has rung."""
PATIENCE = 40.0
"""Seconds after which a test gives up waiting: far more than anything takes on a busy machine."""


@dataclass(frozen=True)
class Entry:
    """One line: what a body said. ``at`` is the wall clock in µs, as events have it; ``mono`` is in seconds."""

    what: str
    pid: int
    run: str
    key: str
    attempt: int
    idem: str
    at: int
    mono: float


class Ledger:
    """One ledger with its bell and its gate, in a directory; plain data, so it goes to other processes."""

    def __init__(self, folder: Path) -> None:
        self.file, self.bell, self.gate = (str(folder / name) for name in ("ledger", "bell", "gate"))
        self._pid = 0
        self._bell = self._gate = self._lines = -1
        self._queue: list[asyncio.Future[None]] = []
        self._entries: list[Entry] = []
        self._read = 0
        self._looking = Lock()

    @classmethod
    def make(cls, folder: Path) -> Ledger:
        folder.mkdir(parents=True, exist_ok=True)
        ledger = cls(folder)
        Path(ledger.file).touch()
        os.mkfifo(ledger.bell)
        os.mkfifo(ledger.gate)
        ledger._open()
        return ledger

    def __reduce__(self) -> tuple[Any, ...]:
        return Ledger, (Path(self.file).parent,)

    def _open(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._queue = []
            # Kept open: a body is to say that it begins also where its process may open nothing more.
            self._lines = os.open(self.file, os.O_WRONLY | os.O_APPEND)
            self._bell = os.open(self.bell, os.O_RDWR | os.O_NONBLOCK)
            self._gate = os.open(self.gate, os.O_RDWR | os.O_NONBLOCK)

    def close(self) -> None:
        """Let the descriptors go."""
        if self._pid == os.getpid():
            self._pid = 0
            os.close(self._lines)
            os.close(self._bell)
            os.close(self._gate)

    # -- what bodies do

    def note(self, what: str, ctx: StepContext[Any]) -> None:
        """Append an entry for a body."""
        self.write(what, ctx.run_id, ctx.key, ctx.attempt, ctx.idempotency_key)

    def write(self, what: str, run: str = "", key: str = "", attempt: int = 0, idem: str = "") -> None:
        """Append any entry."""
        entry = Entry(what, os.getpid(), run, key, attempt, idem, true_time(), CLOCK.monotonic())
        self._open()
        os.write(self._lines, json.dumps(vars(entry)).encode() + b"\n")
        with suppress(BlockingIOError):  # a bell that is full rings all the same
            os.write(self._bell, b".")

    async def pass_gate(self) -> None:
        """Wait until the test opens the gate, once per call."""
        self._open()
        loop = asyncio.get_running_loop()
        if not self._queue:
            loop.add_reader(self._gate, self._let_through)
        place = loop.create_future()
        self._queue.append(place)
        try:
            await place
        finally:
            if place in self._queue:
                self._queue.remove(place)
            if not self._queue:
                loop.remove_reader(self._gate)

    def _let_through(self) -> None:
        with suppress(BlockingIOError):
            for _ in os.read(self._gate, len(self._queue)):
                self._queue.pop(0).set_result(None)
        if not self._queue:
            asyncio.get_running_loop().remove_reader(self._gate)

    def block_at_gate(self) -> None:
        """The same for sync bodies, deaf to everything."""
        self._open()
        while True:
            _wait(self._gate)
            with suppress(BlockingIOError):
                if os.read(self._gate, 1):
                    return

    # -- what tests do

    def open_gate(self, times: int = 1) -> None:
        """Let bodies through."""
        self._open()
        os.write(self._gate, b"g" * times)

    def entries(self, what: str | None = None, /, **fields: object) -> list[Entry]:
        """Everything said so far."""
        found = self.since(0)
        if what is not None:
            fields["what"] = what
        if not fields:
            return found
        return [entry for entry in found if all(getattr(entry, k) == v for k, v in fields.items())]

    def since(self, number: int) -> list[Entry]:
        """What was said after so many entries."""
        # Several threads of a test may look at once.
        with self._looking, Path(self.file).open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is being written
                self._read += len(line)
                self._entries.append(Entry(**json.loads(line)))
            return self._entries[number:]

    def until(self, enough: Callable[[list[Entry]], object], timeout: float = PATIENCE) -> list[Entry]:
        """Wait until the entries satisfy a condition."""
        self._open()
        deadline = CLOCK.monotonic() + timeout
        while True:
            entries = self.entries()
            if enough(entries):
                return entries
            left = deadline - CLOCK.monotonic()
            if left <= 0:
                last = [(e.what, e.pid, e.run, e.key) for e in entries[-20:]]
                msg = f"not seen in {timeout} s; the ledger says {last}"
                raise AssertionError(msg)
            _wait(self._bell, min(left, STOLEN))
            with suppress(BlockingIOError):
                os.read(self._bell, 65_536)

    def until_said(self, what: str, times: int = 1, /, *, timeout: float = PATIENCE, **fields: object) -> list[Entry]:
        """Wait for so many entries of a kind."""
        fields["what"] = what
        self.until(lambda all_: sum(all(getattr(e, k) == v for k, v in fields.items()) for e in all_) >= times, timeout)
        return self.entries(**fields)


def true_time() -> int:
    """The machine's wall clock in µs, also in a process that has been given a wrong one."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 1000


def _wait(descriptor: int, timeout: float | None = None) -> None:
    """Wait until there is something to read."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll(None if timeout is None else 1000 * timeout)
