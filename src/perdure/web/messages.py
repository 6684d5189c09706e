"""Signals by form: which ones a run may be sent, and a field for each part of what their type asks for."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from perdure.finding import loaded_code
from perdure.signals import Signal
from perdure.web.fields import value_of
from perdure.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.model.records import Event, RunRow
    from perdure.web.fields import Field
    from perdure.web.forms import Given
    from perdure.workflow import Workflow

FIELD: Final = "value."
"""How the names of the fields begin that make up a message."""
LONGEST: Final = 100_000
"""Characters of a field of a message."""


def signals_of(
    row: RunRow, created: Event, known: Mapping[tuple[str, str], Workflow[Any, Any]]
) -> dict[str, Signal[Any]]:
    """Return the signals that a run's code knows by name, by theirs; none if that is not loaded here."""
    found = known.get((row.workflow, row.version)) or loaded_code(row, created)
    if found is None:
        return {}
    names = inspect.unwrap(found.fn).__globals__
    return {one.name: one for one in list(names.values()) if isinstance(one, Signal)}


def message_of(given: Given, fields: list[Field]) -> Any:
    """Return the message that a form holds.

    Raises:
        Problem: a field holds what its kind does not have.
    """
    if not given.is_form or "value" in given or not fields:
        return given.value("value")
    texts = {one.name: given.text(FIELD + one.name, longest=LONGEST) for one in fields}
    value, wrong = value_of(fields, texts)
    for one in fields:
        if one.name in wrong:
            read = "" if one.secret else f"this was read: {texts[one.name][:80]}"
            raise Problem(422, "bad_field", f"{one.title}: {wrong[one.name]}", read)
    return value


__all__ = ["FIELD", "LONGEST", "message_of", "signals_of"]
