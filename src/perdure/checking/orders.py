"""Orders that differ from process to process: of sets, and of bare coroutines in ``as_completed``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from perdure.checking.reaching import code
from perdure.checking.resolving import Function, Outside, resolve
from perdure.checking.scopes import COMPREHENSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.checking.findings import Finding
    from perdure.checking.reaching import Unit
    from perdure.checking.scopes import Scope

_SETS = {"builtins.set", "builtins.frozenset"}
_ALGEBRA = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
_METHODS = {"union", "intersection", "difference", "symmetric_difference"}
_TASKS = {"create_task", "ensure_future", "start_soon", "aio"}
"""What makes something that the run's loop gives a hash of its own: sets of these have the same order each time."""
_ORDERED = {"builtins.list", "builtins.tuple", "builtins.enumerate", "builtins.iter", "builtins.next", "builtins.zip"}
"""What hands the order on. (``sorted``, ``sum``, ``len``, ``any``, … do not show it.)"""
_SHOWING = {"builtins.map", "builtins.filter", "perdure.map", "perdure.combine.map"}
_BLIND = {"builtins.any", "builtins.all", "builtins.sum", "builtins.min", "builtins.max", "builtins.len"} | {
    "builtins.sorted",
    *_SETS,
}


def found(unit: Unit) -> Iterator[Finding]:
    """Iterate over the sets that a unit goes through, and its ``as_completed`` over coroutines."""
    for spot in unit.spots:
        match spot.node:
            case ast.For(iter=gone_through) | ast.AsyncFor(iter=gone_through):
                several: list[ast.expr] = [gone_through]
            case ast.ListComp() | ast.DictComp() | ast.GeneratorExp():
                several = [] if _is_blind(unit, spot.node, spot.scope) else [one.iter for one in spot.node.generators]
            case ast.Starred(value=value, ctx=ast.Load()):
                several = [value]
            case ast.Call() as call:
                if _is_as_completed(call, spot.scope) and _are_coroutines(call.args[0], spot.scope):
                    yield unit.finding(call, "as-completed", f"`{code(call.func)}(…)`")
                several = _arguments(call, spot.scope)
            case _:
                continue
        yield from (unit.finding(one, "set-order") for one in several if _is_set(one, spot.scope))


def _arguments(call: ast.Call, scope: Scope) -> list[ast.expr]:
    """Return the arguments of a call that it goes through in their order."""
    of = resolve(call.func, scope)
    if isinstance(of, Outside) and of.name in _ORDERED:
        return list(call.args)
    return call.args[1:] if isinstance(of, Outside) and of.name in _SHOWING else []


def _is_blind(unit: Unit, node: ast.AST, scope: Scope) -> bool:
    """Whether what a comprehension gives is used without regard to its order."""
    parent = unit.parents.get(node)
    if not isinstance(parent, ast.Call):
        return False
    of = resolve(parent.func, scope)
    return isinstance(of, Outside) and of.name in _BLIND


def _is_set(node: ast.expr, scope: Scope, depth: int = 0) -> bool:
    """Whether an expression is surely a set whose order is not the same in every process."""
    if depth > 5:  # noqa: PLR2004 - assignments followed
        return False
    match node:
        case ast.Set(elts=elements):
            return not all(_has_fixed_hash(element, scope) for element in elements)
        case ast.SetComp(elt=element):
            return not _has_fixed_hash(element, scope)
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ALGEBRA):
            return any(_is_set(side, scope, depth + 1) or _is_keys(side) for side in (left, right))
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _METHODS:
            return _is_set(value, scope, depth + 1) or _is_keys(value)
        case ast.Call(func=func, args=arguments):
            of = resolve(func, scope)
            is_one = isinstance(of, Outside) and of.name in _SETS
            return is_one and not (arguments and _fixed(arguments[0], scope))
        case ast.Name(id=name):
            return _is_set_name(name, scope, depth)
        case _:
            return False


def _is_set_name(name: str, scope: Scope, depth: int) -> bool:
    where = scope.find(name)
    if where is None:
        return False
    home, bindings = where
    if all(binding.kind == "value" for binding in bindings):
        return all(isinstance(b.node, ast.expr) and _is_set(b.node, home, depth + 1) for b in bindings)
    if len(bindings) == 1 and bindings[0].kind == "parameter":
        annotation = bindings[0].node
        outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        inner = annotation.slice if isinstance(annotation, ast.Subscript) else None
        of = resolve(outer, home)
        is_ints = isinstance(inner, ast.Name) and inner.id == "int"
        return isinstance(of, Outside) and of.name in _SETS and not is_ints
    return False


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"keys", "items"}


def _fixed(node: ast.expr, scope: Scope) -> bool:
    """Whether all elements of a sequence have the same hash in every process."""
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            return all(_has_fixed_hash(element, scope) for element in elements)
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
            return _has_fixed_hash(element, scope)
        case ast.Call(func=func):
            of = resolve(func, scope)
            return isinstance(of, Outside) and of.name == "builtins.range"
        case _:
            return False


def _has_fixed_hash(node: ast.expr, scope: Scope) -> bool:
    """Whether a value is a number, a task, or a call of a step."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float)
        case ast.Call(func=ast.Attribute(attr=name)) if name in _TASKS:
            return True
        case ast.Call(func=func):
            of = resolve(func, scope)
            return (isinstance(of, Function) and of.kind != "plain") or (
                isinstance(of, Outside) and of.name in {"asyncio.create_task", "asyncio.ensure_future", "builtins.int"}
            )
        case _:
            return False


def _is_as_completed(call: ast.Call, scope: Scope) -> bool:
    of = resolve(call.func, scope)
    return (
        bool(call.args)
        and isinstance(of, Outside)
        and of.name in {"asyncio.as_completed", "asyncio.tasks.as_completed"}
    )


def _are_coroutines(node: ast.expr, scope: Scope) -> bool:
    """Whether a sequence holds calls of plain coroutine functions."""
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            return any(_is_coroutine(element, scope) for element in elements)
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
            return _is_coroutine(element, scope)
        case ast.Name(id=name):
            where = scope.find(name)
            return where is not None and any(
                binding.kind == "value"
                and isinstance(binding.node, (ast.List, ast.Tuple, ast.Set, *COMPREHENSIONS))
                and _are_coroutines(binding.node, where[0])
                for binding in where[1]
            )
        case _:
            return False


def _is_coroutine(node: ast.expr, scope: Scope) -> bool:
    if not isinstance(node, ast.Call):
        return False
    of = resolve(node.func, scope)
    return isinstance(of, Function) and of.kind == "plain" and of.is_async


__all__ = ["found"]
