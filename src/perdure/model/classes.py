"""Classes by reference: ``module:qualname``, found again among the modules that are loaded, never by importing."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

_MAIN = "__main__"
_SHOWN = 120
"""Characters of a type's name in a message."""


def reference(thing: object) -> str | None:
    """Return the reference by which a class or function is found again, or None if it cannot be."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    loaded = sys.modules.get(module)
    if loaded is not None and loaded is sys.modules.get(_MAIN):
        module = _MAIN  # a script loaded under another name, as spawned processes and replays do
    ref = f"{module}:{name}"
    return ref if find(ref) is thing else None


def find(ref: object) -> object | None:
    """Return what a reference stands for, or None if no loaded module has it."""
    if not isinstance(ref, str):
        return None
    module, _, name = ref.partition(":")
    found: object | None = sys.modules.get(module)
    for part in name.split("."):
        # Only what stands in the namespace itself: an attribute made on demand could run code or import.
        space = getattr(found, "__dict__", None)
        found = space.get(part) if isinstance(space, (dict, types.MappingProxyType)) else None
        if found is None:
            return None
    return found


def type_name(kind: object) -> str:
    """Return a class or hint as people read it: ``orders.Order``, ``list[int]``."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        module, name = str(kind.__module__), str(kind.__qualname__)
        return name if module == "builtins" else f"{module}.{name}"
    try:
        text = repr(kind)
    except Exception:  # noqa: BLE001 - a hint's own repr
        text = type(kind).__name__
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def is_local(kind: type[Any]) -> bool:
    """Whether a class was defined inside a function, so that nobody can find it again."""
    return "<locals>" in kind.__qualname__


def attributes(value: object) -> dict[str, Any]:
    """Return what an instance holds: its ``__dict__`` and filled slots, without what is only cached."""
    kind: type[Any] = type(value)
    held: dict[str, Any] = {}
    for name, slot in _slots(kind):  # type: ignore[arg-type]  # mypy takes classes for unhashable here
        try:
            held[name] = slot.__get__(value, kind)
        except AttributeError:  # not filled
            continue
    space = getattr(value, "__dict__", None)
    if isinstance(space, dict):
        held.update(
            {
                name: item
                for name, item in space.items()
                if name != "__orig_class__" and not isinstance(getattr(kind, name, None), functools.cached_property)
            }
        )
    return held


@functools.lru_cache(maxsize=512)
def _slots(kind: type[Any]) -> tuple[tuple[str, types.MemberDescriptorType], ...]:
    return tuple(
        (name, slot)
        for base in kind.__mro__
        if "__slots__" in base.__dict__
        for name, slot in base.__dict__.items()
        if isinstance(slot, types.MemberDescriptorType)
    )


def is_namedtuple(kind: type[Any]) -> bool:
    """Whether a class is a named tuple."""
    return issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)
