"""Signals that are sent in a test when a run waits for them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from perdure.errors import RunNotFound
from perdure.model import payloads
from perdure.model.records import Kind, Status
from perdure.signals import message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.engine import Engine
    from perdure.handle import Handle
    from perdure.model.records import Event
    from perdure.signals import Signal

Cue = tuple["Signal[Any] | str", Any]
"""A signal, or its name, and its message."""


class Script:
    """Signals and their messages, in the order in which they are sent; what was sent is not sent again."""

    def __init__(self, cues: Iterable[Cue], run_id: str | None = None) -> None:
        """Take the cues.

        Args:
            cues: what is sent.
            run_id: the run that it is meant for, or a child of it; by default any.

        Raises:
            InvalidValue: a message is not of its signal's type.
            NotSerializable: it cannot be stored exactly.
            DefinitionError: a name is wrong.
        """
        self._left = [(f"cue {number}", signal, value) for number, (signal, value) in enumerate(cues, 1)]
        self._run_id = run_id
        for key, signal, value in self._left:
            message(signal, value, key)

    @property
    def left(self) -> tuple[tuple[str, Any], ...]:
        """What has not been sent yet, by the names of the signals."""
        return tuple((signal if isinstance(signal, str) else signal.name, value) for _, signal, value in self._left)

    def heard(self, events: Iterable[Event]) -> None:
        """Leave out what a log has received."""
        for event in events:
            if event.kind != Kind.SIGNAL_RECEIVED:
                continue
            name = payloads.fields(event.args).get("name")
            sent = next((n for n, (awaited, _) in enumerate(self.left) if awaited == name), None)
            if sent is not None:
                del self._left[sent]

    async def prompt(self, engine: Engine) -> bool:
        """Send the first message that a run waits for, to the oldest run that does; returns whether there was one."""
        if not self._left:
            return False
        waiting = sorted([row async for row in engine.runs(status=Status.WAITING.word)], key=lambda row: row.run_key)
        meant = None if self._run_id is None or not waiting else await _family(engine, self._run_id)
        for row in waiting:
            if meant is not None and row.run_id not in meant:
                continue
            handle: Handle[Any] = engine.get(row.run_id)
            awaited = (await handle.view()).awaits
            for cue in self._left:
                key, signal, value = cue
                if (signal if isinstance(signal, str) else signal.name) in awaited:
                    # Whoever dies before it hears that it was sent sends it again, under the same key.
                    await handle.signal(signal, value, idempotency_key=key)
                    self._left.remove(cue)
                    return True
        return False


class Scripts:
    """The scripts of several runs that go on side by side in one engine."""

    def __init__(self) -> None:
        self.parts: list[Script] = []

    async def prompt(self, engine: Engine) -> bool:
        """Send the first message that a run waits for; returns whether there was one."""
        for part in list(self.parts):
            if await part.prompt(engine):
                return True
        return False


async def _family(engine: Engine, run_id: str) -> set[str]:
    """Return a run and all that come of it."""
    found: set[str] = set()
    ahead = [run_id]
    while ahead:
        one = ahead.pop()
        if one in found:
            continue
        found.add(one)
        handle: Handle[Any] = engine.get(one)
        with suppress(RunNotFound):  # it is being created
            ahead += [child.run_id for child in (await handle.view()).children.values()]
    return found


__all__ = ["Cue", "Script", "Scripts"]
