"""Effects, counted outside the engine: what really happened, whatever the event log says of it."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from perdure.context import step_context
from perdure.errors import NotInRun

if TYPE_CHECKING:
    from collections.abc import Generator


class Entry(NamedTuple):
    """One line of a ledger.

    ``what`` is "begin" or "end" of a body, or the name of an effect. ``key`` is the step's key in the run, ``""`` for
    what was written outside a step. ``idempotency_key`` is the engine's for a body, and for an effect the one it was
    made with.
    """

    what: str
    run_id: str
    key: str
    attempt: int
    idempotency_key: str
    pid: int


class Ledger:
    """An append-only list of what steps did, in a file that many processes share, or in memory.

    In a step::

        with ledger.body():
            bank.charge(order, idempotency_key=ctx.idempotency_key)
            ledger.effect("charge", ctx.idempotency_key)

    A body that was killed has a "begin" and no "end".
    """

    def __init__(self, path: str | Path | None = None) -> None:
        """Open a ledger; nothing is written yet.

        Args:
            path: the file, one JSON array a line; without one, the ledger is in memory and of this process only.
        """
        self.path = None if path is None else Path(path)
        self._entries: list[Entry] = []
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<Ledger {'in memory' if self.path is None else self.path}>"

    def __reduce__(self) -> tuple[object, ...]:
        if self.path is None:
            raise TypeError("a ledger in memory is of one process only: give it a path")
        return Ledger, (self.path,)

    def __len__(self) -> int:
        return len(self.entries())

    # -- writing

    @contextmanager
    def body(self) -> Generator[Entry]:
        """Note that the body of the step that is calling begins, and, unless it raises, that it ends.

        Raises:
            NotInRun: no step's body is calling.
        """
        entry = self.begin()
        yield entry
        self.append(entry._replace(what="end"))

    def begin(self) -> Entry:
        """Note that the body of the step that is calling begins.

        Raises:
            NotInRun: no step's body is calling.
        """
        ctx = step_context()
        entry = Entry("begin", ctx.run_id, ctx.key, ctx.attempt, ctx.idempotency_key, os.getpid())
        self.append(entry)
        return entry

    def effect(self, name: str, idempotency_key: str = "") -> bool:
        """Note an effect on the world; where it happens in a step, with the step's key and attempt.

        Args:
            name: what was done: "charge".
            idempotency_key: the key the world was given with it, if any.

        Returns:
            Whether it is new to the world: there is no effect of this name with this key yet (or it has no key).
        """
        try:
            ctx = step_context()
        except NotInRun:
            entry = Entry(name, "", "", 0, idempotency_key, os.getpid())
        else:
            entry = Entry(name, ctx.run_id, ctx.key, ctx.attempt, idempotency_key, os.getpid())
        new = not idempotency_key or not any(
            other.what == name and other.idempotency_key == idempotency_key for other in self.entries()
        )
        self.append(entry)
        return new

    def append(self, entry: Entry) -> None:
        """Add a line, whole, whoever else is writing."""
        if self.path is None:
            with self._lock:
                self._entries.append(entry)
            return
        line = json.dumps(entry, ensure_ascii=False).encode() + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    # -- reading

    def entries(self, key: str | None = None, *, run_id: str | None = None) -> list[Entry]:
        """Return the lines in the order in which they were written.

        Args:
            key: only of this step.
            run_id: only of this run.
        """
        if self.path is None:
            with self._lock:
                found = list(self._entries)
        else:
            lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
            found = [Entry(*json.loads(line)) for line in lines if line.endswith(b"\n")]
        return [
            entry for entry in found if (key is None or entry.key == key) and (run_id is None or entry.run_id == run_id)
        ]

    def begun(self, key: str | None = None, *, run_id: str | None = None) -> list[Entry]:
        """Return the bodies that began; options as for ``entries``."""
        return [entry for entry in self.entries(key, run_id=run_id) if entry.what == "begin"]

    def ended(self, key: str | None = None, *, run_id: str | None = None) -> list[Entry]:
        """Return the bodies that ended; options as for ``entries``."""
        return [entry for entry in self.entries(key, run_id=run_id) if entry.what == "end"]

    def effects(self, name: str | None = None) -> list[Entry]:
        """Return the effects, of one name or of all."""
        return [e for e in self.entries() if e.what not in {"begin", "end"} and (name is None or e.what == name)]


__all__ = ["Entry", "Ledger"]
