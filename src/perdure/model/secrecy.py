"""What is not to be shown to people: marked in types, and stored with the mark.

A part of a value that is marked is stored as ``{"~secret": part}``: what shows a value needs nothing but its bytes to
know what to leave out. A value of whose parts one is marked begins with a tab, if pydantic has written it; in tagged
JSON the mark is a tag. ``{"~secret":`` stands in no other text (inside a JSON string its quotes would be escaped), so
marks are found, left out and taken off without reading the rest. Part of the format.
"""

from __future__ import annotations

import functools
import json
import re
import typing
from typing import TYPE_CHECKING, Annotated, Any, Final, final

from pydantic_core import core_schema

from perdure.errors import Undecodable
from perdure.model.redaction import HIDDEN

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

MARK: Final = '{"~secret":'
"""What a part begins with that is not to be shown."""
SEALING: Final = {"perdure": "sealing"}
"""The context in which pydantic writes marks; everywhere else marked types are written as if they were not marked."""
_MARK: Final = MARK.encode()
_SCANNER: Final = json.JSONDecoder()
_WORD: Final = re.compile(r"\b[Ss]ecret\b")


@final
class Secret:
    """Marks what is not to be shown to people: ``Annotated[str, secret]``.

    On parameters and results of workflows and steps, on what signals and streams carry, on fields of dataclasses,
    pydantic models, typed dicts and named tuples, at any depth of lists, dicts, optionals and unions.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "secret"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Let pydantic write the mark, where the store is what it writes for."""
        inner: Any = handler(source)
        write = core_schema.wrap_serializer_function_ser_schema(
            self._sealed, info_arg=True, schema=inner if "serialization" in inner else None
        )
        marked: Any = {**inner, "serialization": write}
        return marked  # type: ignore[no-any-return]

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Say so in JSON schemas, as pydantic does of its own secrets."""
        return {**handler(schema), "writeOnly": True}

    def _sealed(
        self, value: Any, write: core_schema.SerializerFunctionWrapHandler, info: core_schema.SerializationInfo
    ) -> Any:
        written = write(value)
        return {"~secret": written} if info.context is SEALING else written


secret: Final = Secret()


def is_marked(schema: str) -> bool:
    """Whether some type is marked, by the text of what pydantic made of it."""
    return "Secret._sealed of secret" in schema


def has_mark(hint: Any) -> bool:
    """Whether an annotation marks what it annotates, or some part of it that is of no class with fields of its own."""
    return _has_mark(hint, ())


def _has_mark(hint: Any, within: tuple[Any, ...]) -> bool:
    if isinstance(hint, (str, typing.ForwardRef)):
        return _WORD.search(hint if isinstance(hint, str) else hint.__forward_arg__) is not None
    if any(hint is one for one in within):
        return False
    within += (hint,)
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return any(isinstance(one, Secret) for one in hint.__metadata__) or _has_mark(hint.__origin__, within)
    if origin is typing.Literal:
        return False
    for name in ("__value__", "__supertype__"):  # what `type X = …` and NewType stand for
        if _has_mark(getattr(hint, name, None), within):
            return True
    if isinstance(hint, type) and hasattr(hint, "__annotations__") and issubclass(hint, (dict, tuple)):
        return bool(_marked(hint, within))
    return any(_has_mark(part, within) for part in typing.get_args(hint))


@functools.lru_cache(1000)
def marked_fields(kind: Any) -> frozenset[str]:
    """Return which fields of a dataclass, model or named tuple are marked, or have marks within."""
    found = _marked(kind, (kind,))
    for name, field in (getattr(kind, "__pydantic_fields__", None) or {}).items():
        if any(isinstance(one, Secret) for one in field.metadata) or has_mark(field.annotation):
            found.add(name)
    return frozenset(found)


def _marked(kind: type, within: tuple[Any, ...]) -> set[str]:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001 - what cannot be resolved is text, and looked at as such
        hints = {name: hint for base in reversed(kind.__mro__) for name, hint in _annotations(base).items()}
    return {name for name, hint in hints.items() if _has_mark(hint, within)}


def _annotations(kind: type) -> dict[str, Any]:
    try:
        return dict(getattr(kind, "__annotations__", None) or {})
    except NameError:  # they name something that is there for type checkers only
        return {}


def has_secrets(data: bytes) -> bool:
    """Whether something in stored JSON is marked."""
    return _MARK in data


def sealed(data: bytes) -> bytes:
    """Return JSON with a mark around all of it."""
    return _MARK + data + b"}"


def unsealed(data: bytes) -> bytes:
    """Return stored JSON as it would be if nothing were marked.

    Raises:
        Undecodable: it is no JSON, or what looks like a mark is none.
    """
    if _MARK not in data:
        return data[1:] if data[:1] == b"\t" else data
    try:
        return _without(data.decode().replace("\t", "")).encode()  # none of ours are inside of strings
    except (ValueError, RecursionError) as error:
        raise Undecodable(
            "stored value cannot be read: what is marked in it is no JSON",
            type="JSON",
            advice="the bytes are damaged, or a newer Perdure wrote them",
        ) from error


def _without(text: str) -> str:
    kept, at = [], 0
    while (start := text.find(MARK, at)) >= 0:
        inner = start + len(MARK)
        end = _SCANNER.raw_decode(text, inner)[1]
        if text[end : end + 1] != "}":
            raise ValueError("a mark is around one part")
        kept += [text[at:start], _without(text[inner:end])]
        at = end + 1
    return "".join([*kept, text[at:]])


def concealed(data: bytes) -> bytes:
    """Return stored JSON, or the beginning of some, as it may be shown: without what is marked in it."""
    if _MARK not in data:
        return data
    text = data.decode("utf-8", "backslashreplace")
    kept, at = [], 0
    while (start := text.find(MARK, at)) >= 0:
        kept += [text[at:start], f'"{HIDDEN}"']
        try:
            at = _SCANNER.raw_decode(text, start + len(MARK))[1]
        except (ValueError, RecursionError):  # it was cut off in there
            at = len(text)
        at += text[at : at + 1] == "}"
    return "".join([*kept, text[at:]]).encode()


__all__ = [
    "MARK",
    "SEALING",
    "Secret",
    "concealed",
    "has_mark",
    "has_secrets",
    "is_marked",
    "marked_fields",
    "sealed",
    "secret",
    "unsealed",
]
