"""Signals by form: which ones a run may be sent, and a field for each part of what their type asks for."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

from perdure.errors import PerdureError
from perdure.finding import loaded_code
from perdure.signals import Signal
from perdure.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.model.records import Event, RunRow
    from perdure.web.forms import Given
    from perdure.workflow import Workflow

_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})
FIELD: Final = "value."
"""How the names of the fields begin that make up a message."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form.

    Attributes:
        name: of the property; empty: the message itself.
        kind: "string", "integer", "number", "boolean", "enum", or "json" for everything else.
        title: what it is called.
        about: what it is for.
        required: whether it must be there.
        choices: of an enum, as JSON.
        initial: what stands there at first.
    """

    name: str
    kind: str
    title: str
    about: str = ""
    required: bool = True
    choices: tuple[str, ...] = ()
    initial: str = ""


def signals_of(
    row: RunRow, created: Event, known: Mapping[tuple[str, str], Workflow[Any, Any]]
) -> dict[str, Signal[Any]]:
    """Return the signals that a run's code knows by name, by theirs; none if that is not loaded here."""
    found = known.get((row.workflow, row.version)) or loaded_code(row, created)
    if found is None:
        return {}
    names = inspect.unwrap(found.fn).__globals__
    return {one.name: one for one in list(names.values()) if isinstance(one, Signal)}


def schema_of(signal: Signal[Any]) -> dict[str, Any] | None:
    """Return the JSON schema of a signal's messages; None if there is none."""
    try:
        return TypeAdapter(signal.codec.hint).json_schema()
    except (PerdureError, PydanticUserError, PydanticInvalidForJsonSchema):
        return None


def fields_of(schema: dict[str, Any] | None) -> list[Field]:
    """Return the fields for messages of a schema; one for JSON where it is too much for a form."""
    if not schema:
        return [Field("", "json", "Message")]
    defs = schema.get("$defs", {})
    if schema.get("type") == "object" and schema.get("properties"):
        required = set(schema.get("required", ()))
        return [_field(name, one, defs, required=name in required) for name, one in schema["properties"].items()]
    return [_field("", schema, defs, required=True)]


def _field(name: str, schema: dict[str, Any], defs: dict[str, Any], *, required: bool) -> Field:
    schema = _resolved(schema, defs)
    title, about = str(schema.get("title") or name or "Message"), str(schema.get("description") or "")
    initial = schema.get("default")
    told = "" if "default" not in schema else initial if isinstance(initial, str) else json.dumps(initial)
    if "enum" in schema:
        choices = tuple(json.dumps(one, ensure_ascii=False) for one in schema["enum"])
        return Field(name, "enum", title, about, required, choices, json.dumps(initial) if told else "")
    kind = schema.get("type")
    return Field(name, kind if kind in _SCALARS else "json", title, about, required, (), told)


def _resolved(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        return {**defs.get(reference.removeprefix("#/$defs/"), {}), **schema}
    return schema


def message_of(given: Given, fields: list[Field]) -> Any:
    """Return the message that a form holds.

    Raises:
        Problem: a field holds what its kind does not have.
    """
    if not given.is_form or "value" in given:
        return given.value("value")
    found = {}
    for field in fields:
        text = given.text(FIELD + field.name, longest=100_000)
        if not text and field.kind != "boolean" and not field.required:
            continue
        found[field.name] = _read(field, text)
    return found.get("", found)  # what has no name is the message itself


def _read(field: Field, text: str) -> Any:
    if field.kind == "string":
        return text
    if field.kind == "boolean":
        return text == "true"
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problem(422, "bad_field", f"{field.title} is no {field.kind}", f"this was read: {text[:80]}") from error


__all__ = ["FIELD", "Field", "fields_of", "message_of", "schema_of", "signals_of"]
