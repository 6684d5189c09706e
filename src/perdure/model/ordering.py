"""What pydantic does not write of values: the order of sets, which is that of their items' text, and what is secret.

A set's own order differs between processes, but arguments are compared by their bytes, or by a hash of them, so equal
values have to be written alike everywhere. Of its own secrets pydantic writes stars.
"""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, RootModel, SecretBytes, SecretStr

from perdure.model.tagged import write

if TYPE_CHECKING:
    from collections.abc import Callable

_LISTED = (list, tuple, deque, set, frozenset)
_SETS = ("'type': 'set'", "'type': 'frozenset'")
_SECRETS = ("pydantic.types.SecretStr", "pydantic.types.SecretBytes")


def may_have_sets(schema: str) -> bool:
    """Whether values of an annotation may have sets in them, by the text of what pydantic made of it."""
    return any(mark in schema for mark in _SETS)


def may_have_secrets(schema: str) -> bool:
    """Whether they may have secrets of pydantic's in them."""
    return any(mark in schema for mark in _SECRETS)


def write_ordered(to_json: Callable[..., bytes], value: Any, **options: Any) -> bytes:
    """Return a value as ``to_json`` writes it, with its sets in order, and its secrets, which are marked.

    Args:
        to_json: writes a value; sets in the order in which they are iterated.
        value: what to write.
        options: of ``to_json``.
    """
    return write(_ordered(value, json.loads(to_json(value, **options)))).encode()


def _ordered(value: Any, node: Any) -> Any:
    """Return JSON with every list in order that stands for a set, and secrets; ``value`` is what it was written of."""
    if isinstance(value, RootModel):
        return _ordered(value.root, node)
    if isinstance(value, (SecretStr, SecretBytes)):
        held = value.get_secret_value()
        return {"~secret": held if isinstance(held, str) else held.decode()}
    if isinstance(node, list):
        if not isinstance(value, _LISTED) or len(value) != len(node):
            return node
        items = [*map(_ordered, value, node)]
        return sorted(items, key=write) if isinstance(value, (set, frozenset)) else items
    return _held(value, node) if isinstance(node, dict) else node


def _held(value: Any, node: dict[str, Any]) -> dict[str, Any]:
    """Return what is held under names likewise."""
    if len(node) == 1 and "~secret" in node:
        return {"~secret": _ordered(value, node["~secret"])}
    if isinstance(value, Mapping):
        same_size = len(value) == len(node)
        return dict(zip(node, map(_ordered, value.values(), node.values()), strict=True)) if same_size else node
    if isinstance(value, BaseModel):
        held = value.__dict__ | (value.__pydantic_extra__ or {})
        return {name: _ordered(held.get(name), item) for name, item in node.items()}
    if dataclasses.is_dataclass(value):
        return {name: _ordered(getattr(value, name, None), item) for name, item in node.items()}
    return node


__all__ = ["may_have_sets", "write_ordered"]
