"""The workflows that a workflow may start as children: found by the names in its code."""

from __future__ import annotations

from inspect import getclosurevars, unwrap
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from perdure.workflow import Workflow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def family(workflow: Workflow[Any, Any], others: Iterable[Workflow[Any, Any]] = ()) -> list[Workflow[Any, Any]]:
    """Return a workflow, others that were named, and all that their code names, as do the functions it calls.

    What is reached in another way (through an attribute, a list, an argument) has to be among the others.
    """
    found: dict[tuple[str, str], Workflow[Any, Any]] = {}
    seen: set[Callable[..., object]] = set()
    ahead: list[object] = [workflow, *others]
    while ahead:
        one = ahead.pop(0)
        if isinstance(one, Workflow):
            found.setdefault((one.name, one.version), one)
            one = one.fn
        function = unwrap(one) if callable(one) and hasattr(one, "__wrapped__") else one
        if isinstance(function, FunctionType) and function not in seen:
            seen.add(function)
            ahead += _named(function)
    return list(found.values())


def _named(function: FunctionType) -> Iterator[object]:
    """What the code of a function names: workflows, and functions of its own module."""
    within = list(getclosurevars(function).nonlocals.values())
    within += [function.__globals__.get(name) for name in _names(function.__code__)]
    for one in within:
        if isinstance(one, Workflow) or (isinstance(one, FunctionType) and one.__module__ == function.__module__):
            yield one


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)


__all__ = ["family"]
