"""The order of sets in JSON: that of their items' text, since a set's own order differs between processes.

Arguments are compared by their bytes, or by a hash of them, so equal values have to be written alike everywhere.
"""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, RootModel

from perdure.model.tagged import write

if TYPE_CHECKING:
    from collections.abc import Callable

_LISTED = (list, tuple, deque, set, frozenset)
_SETS = ("'type': 'set'", "'type': 'frozenset'")


def may_have_sets(schema: str) -> bool:
    """Whether values of an annotation may have sets in them, by the text of what pydantic made of it."""
    return any(mark in schema for mark in _SETS)


def write_ordered(to_json: Callable[..., bytes], value: Any, **options: Any) -> bytes:
    """Return a value as ``to_json`` writes it, with its sets in order.

    Args:
        to_json: writes a value; sets in the order in which they are iterated.
        value: what to write.
        options: of ``to_json``.
    """
    return write(_ordered(value, json.loads(to_json(value, **options)))).encode()


def _ordered(value: Any, node: Any) -> Any:
    """Return JSON with every list in order that stands for a set; ``value`` is what it was written of."""
    if isinstance(value, RootModel):
        return _ordered(value.root, node)
    if isinstance(node, list):
        if not isinstance(value, _LISTED) or len(value) != len(node):
            return node
        items = [*map(_ordered, value, node)]
        return sorted(items, key=write) if isinstance(value, (set, frozenset)) else items
    if isinstance(node, dict):
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
