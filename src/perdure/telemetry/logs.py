"""How a log line is said: under a stable name, with what it is about as attributes of the record, and no value shown.

Lines at INFO and above show neither payloads nor arguments. Of an exception that is a user's own they show its type and
where it was raised; its text and traceback are in a record of their own, at DEBUG. Errors of Perdure's show their
headline, which holds no values, and a fault of Perdure's itself its traceback.
"""

from __future__ import annotations

import logging
import traceback
from pathlib import PurePath
from typing import Any, NamedTuple

from perdure.errors import PerdureError

EVENT = "perdure_event"
"""The attribute of a record that holds the line's name."""

FIELDS = ("run_id", "workflow", "namespace", "queue", "worker", "step", "attempt")
"""The attributes of records that say what a line is about, where they apply."""


class Line(NamedTuple):
    """A line of the log.

    Attributes:
        name: what it is called, for ever; the record's ``perdure_event``.
        level: the level it is logged at.
        logger: the logger's name.
        text: its text, with ``%(field)s`` for what it is about.
        meaning: what has happened, and what to do about it if anything.
    """

    name: str
    level: int
    logger: str
    text: str
    meaning: str

    @property
    def is_heard(self) -> bool:
        """Whether anyone wants to hear it now."""
        return logging.getLogger(self.logger).isEnabledFor(self.level)


def say(line: Line, /, *, error: BaseException | None = None, fault: bool = False, **fields: Any) -> None:
    """Say a line.

    Args:
        line: which one.
        error: what it was said for. A user's own is shown by type and place; its traceback follows at DEBUG.
        fault: whether ``error`` is a fault of Perdure's, so that its traceback is always wanted.
        fields: what the line is about; all become attributes of the record.
    """
    logger = logging.getLogger(line.logger)
    if not logger.isEnabledFor(line.level):
        return
    fields[EVENT] = line.name
    if error is not None:
        fields["error"], fields["error_type"] = described(error), type_of(error)
    shown = error if fault else None
    logger.log(line.level, line.text, fields, exc_info=shown, extra=fields, stacklevel=2)
    if error is not None and not fault and not isinstance(error, PerdureError):
        logger.debug("%(perdure_event)s: its traceback", fields, exc_info=error, extra=fields, stacklevel=2)


def type_of(error: BaseException) -> str:
    """Return how logs and spans name the type of an exception: ``ValueError``, ``httpx.ConnectError``."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def described(error: BaseException) -> str:
    """Return an error in a line that shows no value: the headline of one of ours, the type and place of any other."""
    if isinstance(error, PerdureError):
        return error.headline
    frames = traceback.extract_tb(error.__traceback__, -1) if error.__traceback__ is not None else None
    where = f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return type_of(error) + where


__all__ = ["EVENT", "FIELDS", "Line", "described", "say", "type_of"]
