"""Fields of forms, made of a JSON schema: one for each part of a value, and the value that they hold together."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

from perdure.errors import PerdureError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.model.codec import ValueCodec

_TELLING: Final = frozenset({"default", "examples", "example", "const", "enum"})
"""What of a schema holds values."""
_NAMED: Final = frozenset({"$defs", "properties", "patternProperties"})
"""What of a schema holds others by names of the user's."""
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})
_DEEPEST: Final = 3
"""How far down objects within objects have fields of their own; below that they are JSON."""
_HINTS: Final = {
    "date-time": "2026-05-01T12:00:00Z",
    "date": "2026-05-01",
    "time": "12:00:00",
    "duration": "PT30S",
    "email": "ada@example.com",
    "uri": "https://",
    "uuid": "00000000-0000-0000-0000-000000000000",
}
"""What texts of a format look like."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form.

    Attributes:
        path: the names of the properties that lead to it; empty: it is the whole value.
        kind: "string", "integer", "number", "boolean", "enum", or "json" for everything else.
        title: what it is called.
        about: what it is for.
        required: whether it must be there.
        nullable: whether it may be null.
        choices: of an enum, as JSON.
        initial: what stands there at first.
        hint: what it may look like.
        secret: whether it holds what is not to be shown; then nothing stands there at first or again.
    """

    path: tuple[str, ...]
    kind: str
    title: str
    about: str = ""
    required: bool = True
    nullable: bool = False
    choices: tuple[str, ...] = ()
    initial: str = ""
    hint: str = ""
    secret: bool = False

    @property
    def name(self) -> str:
        """What it is called in a form."""
        return ".".join(self.path)


def schema_of(codec: ValueCodec) -> dict[str, Any] | None:
    """Return the JSON schema of the values that a codec is for, without secret defaults; None if there is none."""
    try:
        schema = TypeAdapter(codec.hint).json_schema()
    except (PerdureError, PydanticUserError, PydanticInvalidForJsonSchema):
        return None
    discreet: dict[str, Any] = _discreet(schema, schema.get("$defs", {}))
    return discreet


def _discreet(node: Any, defs: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_discreet(one, defs) for one in node]
    if not isinstance(node, dict):
        return node
    left_out = _TELLING if any(name in node for name in _TELLING) and _has_secret(node, defs, ()) else frozenset()
    return {
        name: {key: _discreet(held, defs) for key, held in one.items()} if name in _NAMED else _discreet(one, defs)
        for name, one in node.items()
        if name not in left_out
    }


def _has_secret(node: Any, defs: Mapping[str, Any], within: tuple[str, ...]) -> bool:
    """Whether values of a schema hold what is not to be shown."""
    if isinstance(node, list):
        return any(_has_secret(one, defs, within) for one in node)
    if not isinstance(node, dict):
        return False
    reference = node.get("$ref")
    if isinstance(reference, str) and reference not in within:
        node = {**_resolved(node, defs), "$ref": None}
        within += (reference,)
    return node.get("writeOnly") is True or any(
        _has_secret(list(one.values()) if name in _NAMED else one, defs, within)
        for name, one in node.items()
        if name not in {"$defs", *_TELLING}
    )


def fields_of(schema: Mapping[str, Any] | None, title: str) -> list[Field]:
    """Return the fields for values of a schema; one for JSON where it is too much for a form.

    Args:
        schema: the schema; empty or None: any JSON.
        title: what the value is called if it has no name of its own.
    """
    if not schema:
        return [Field((), "json", title)]
    made = _fields((), schema, schema.get("$defs", {}), title, required=True)
    names = [one.name for one in made]
    # Names with dots in them could mean two things.
    return made if len(set(names)) == len(names) else [Field((), "json", title)]


def _fields(
    path: tuple[str, ...], schema: Mapping[str, Any], defs: Mapping[str, Any], title: str, *, required: bool
) -> list[Field]:
    schema = _resolved(schema, defs)
    properties = schema.get("properties")
    if required and schema.get("type") == "object" and properties and len(path) < _DEEPEST:
        wanted = set(schema.get("required", ()))
        return [
            field
            for name, one in properties.items()
            for field in _fields((*path, name), one, defs, title, required=name in wanted)
        ]
    return [_field(path, schema, defs, title, required=required)]


def _field(
    path: tuple[str, ...], schema: Mapping[str, Any], defs: Mapping[str, Any], title: str, *, required: bool
) -> Field:
    own = schema
    branches = [_resolved(one, defs) for one in schema.get("anyOf", ())]
    nullable = any(one.get("type") == "null" for one in branches)
    others = [one for one in branches if one.get("type") != "null"]
    if nullable and len(others) == 1:
        schema = others[0]
    name = str(own.get("title") or schema.get("title") or (path[-1] if path else title))
    if len(path) > 1:
        name = f"{' · '.join(path[:-1])} · {name}"
    about = str(own.get("description") or schema.get("description") or "")
    kind, initial = str(schema.get("type", "json")), ""
    choices: tuple[str, ...] = ()
    if "default" in own and own["default"] is not None:
        initial = own["default"] if isinstance(own["default"], str) else _json(own["default"])
    if "enum" in schema:
        kind, choices = "enum", tuple(map(_json, schema["enum"]))
        initial = _json(own["default"]) if initial else ""
    elif kind not in _SCALARS:
        kind = "json"
        initial = _json(own["default"], indent=2) if initial else ""
    hint = _HINTS.get(str(schema.get("format")), {"array": "[]", "object": "{}"}.get(str(schema.get("type")), ""))
    secret = _has_secret(own, defs, ())
    return Field(path, kind, name, about, required, nullable, choices, "" if secret else initial, hint, secret)


def _json(value: object, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **options)


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref", "")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        return {**defs.get(reference.removeprefix("#/$defs/"), {}), **schema}
    return schema


def value_of(fields: list[Field], given: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
    """Return the value that the texts of a form hold together, and what is wrong by name of field.

    What is left empty and need not be there is left out; so is what a form does not have.
    """
    found: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for field in fields:
        text = given.get(field.name, "")
        if not text.strip() and (not field.required or field.nullable) and field.kind != "boolean":
            if field.required or not field.path:
                _put(found, field.path, None)
            continue
        if not text and field.kind == "boolean" and not field.required:
            continue
        try:
            value = _read(field, text)
        except ValueError as error:
            wrong[field.name] = str(error)
        else:
            _put(found, field.path, value)
    return found.get("", found), wrong  # what has no name is the value itself


def _put(found: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        found = found.setdefault(name, {})
    found[path[-1] if path else ""] = value


def _read(field: Field, text: str) -> Any:
    if field.kind == "string":
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        said = "it is empty" if not text.strip() else f"it is no {_WORDS.get(field.kind, 'JSON')}"
        raise ValueError(said) from None
    return value


_WORDS: Final = {"integer": "whole number", "number": "number", "boolean": "true or false"}

__all__ = ["Field", "fields_of", "schema_of", "value_of"]
