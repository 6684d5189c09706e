"""Writes to what outlives a run in memory: global names, and objects that global names hold."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from perdure.checking.reaching import code
from perdure.checking.resolving import Class, Object, Outside, Package, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.checking.findings import Finding
    from perdure.checking.reaching import Spot, Unit
    from perdure.checking.scopes import Binding, Scope

_LIST = ("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse")
_DICT = ("update", "setdefault", "popitem")
_SET = ("add", "discard", "intersection_update", "difference_update", "symmetric_difference_update")
_DEQUE = ("appendleft", "popleft", "extendleft", "rotate")
_CHANGES = frozenset({*_LIST, *_DICT, *_SET, *_DEQUE})
"""Methods that change a list, dict, set or deque."""
_CONTAINERS = frozenset(
    f"{module}.{name}"
    for module, names in (
        ("builtins", "list dict set bytearray"),
        ("collections", "deque defaultdict OrderedDict Counter"),
        ("weakref", "WeakKeyDictionary WeakValueDictionary WeakSet"),
    )
    for name in names.split()
)
_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def found(unit: Unit) -> Iterator[Finding]:
    """Iterate over a unit's writes to what is shared."""
    for spot in unit.spots:
        match spot.node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if _declared_outside(name, spot, unit):
                yield unit.finding(spot.node, "global-state", f"setting `{name}`")
            case ast.Attribute(value=value, ctx=ast.Store() | ast.Del()) if _is_shared(value, spot, unit):
                yield unit.finding(spot.node, "global-state", f"setting `{code(spot.node)}`")
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()) if _is_shared(value, spot, unit):
                yield unit.finding(spot.node, "global-state", f"setting `{code(spot.node)}`")
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in _CHANGES:
                if _is_shared(value, spot, unit, containers=True):
                    yield unit.finding(spot.node, "global-state")
            case _:
                pass


def _declared_outside(name: str, spot: Spot, unit: Unit) -> bool:
    """Whether assigning a name here assigns a global one, or one of a function around the workflow."""
    if name not in spot.scope.function.elsewhere:
        return False
    where = spot.scope.function.find(name)
    return where is None or not where[0].is_within(unit.scope)


def _is_shared(node: ast.expr, spot: Spot, unit: Unit, *, containers: bool = False) -> bool:
    """Whether what is changed hangs on a name from outside of the function: ``CACHE``, ``settings.limits``.

    Args:
        node: what is changed.
        spot: where.
        unit: the function.
        containers: only lists, dicts and the like: what the methods of other objects do is not known.
    """
    root = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    where = spot.scope.find(root.id)
    if where is None or where[0].is_within(unit.scope):
        return False
    home, bindings = where
    if all(binding.kind == "import" for binding in bindings):
        return _is_imported_state(node, root, spot.scope, containers=containers)
    if bindings[0].kind in {"function", "class"}:
        return not containers
    return not containers or node is not root or _is_container(bindings, home)


def _is_container(bindings: list[Binding], home: Scope) -> bool:
    for binding in bindings:
        if isinstance(binding.node, _DISPLAYS):
            return True
        of = resolve(binding.node, home) if binding.kind == "value" else None
        if isinstance(of, Object) and isinstance(of.of, Outside) and of.of.name in _CONTAINERS:
            return True
    return False


def _is_imported_state(node: ast.expr, root: ast.Name, scope: Scope, *, containers: bool) -> bool:
    """Whether an imported name, or an attribute of an imported module, is a variable that is changed here."""
    thing = resolve(root, scope)
    if isinstance(thing, Class):
        return not containers
    if isinstance(thing, Package):
        if not isinstance(node, ast.Attribute):
            return not containers
        return not containers or _is_container(thing.module.top.names.get(node.attr, []), thing.module.top)
    if isinstance(thing, Outside):
        return not containers and thing.name.partition(".")[0] != "perdure"
    return _named_elsewhere(root, scope) if containers else True


def _named_elsewhere(root: ast.Name, scope: Scope) -> bool:
    """Whether an imported name is a container where it comes from."""
    where = scope.find(root.id)
    dotted = where[1][0].dotted if where is not None else ""
    module = scope.module.program.module(dotted.rpartition(".")[0])
    return module is not None and _is_container(module.top.names.get(dotted.rpartition(".")[2], []), module.top)


__all__ = ["found"]
