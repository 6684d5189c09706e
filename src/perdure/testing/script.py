"""Signals that are sent in a test when a run waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.model.records import Status
from perdure.signals import message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.engine import Engine
    from perdure.handle import Handle
    from perdure.signals import Signal

Cue = tuple["Signal[Any] | str", Any]
"""A signal, or its name, and its message."""


class Script:
    """Signals and their messages, in the order in which they are sent; what was sent is not sent again."""

    def __init__(self, cues: Iterable[Cue]) -> None:
        """Take the cues.

        Raises:
            InvalidValue: a message is not of its signal's type.
            NotSerializable: it cannot be stored exactly.
            DefinitionError: a name is wrong.
        """
        self._left = [(f"cue {number}", signal, value) for number, (signal, value) in enumerate(cues, 1)]
        for key, signal, value in self._left:
            message(signal, value, key)

    async def prompt(self, engine: Engine) -> bool:
        """Send the first message that a run waits for, to the oldest run that does; returns whether there was one."""
        if not self._left:
            return False
        waiting = sorted([row async for row in engine.runs(status=Status.WAITING.word)], key=lambda row: row.run_key)
        for row in waiting:
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


__all__ = ["Cue", "Script"]
