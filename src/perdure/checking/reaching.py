"""Where workflows are, and the code they reach: their own bodies and the functions of the program that these call."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from perdure.checking.findings import Finding
from perdure.checking.resolving import Class, Function, body_scope, decorated, resolve
from perdure.checking.rules import RULES
from perdure.checking.scopes import COMPREHENSIONS, FUNCTIONS, FunctionNode, Scope, own, scope_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.checking.resolving import Thing
    from perdure.checking.scopes import Source

LONGEST = 60
"""Characters of code that a finding shows."""


class Spot(NamedTuple):
    """A node of a workflow's code, the scope it is in, and the innermost function around it."""

    node: ast.AST
    scope: Scope
    function: FunctionNode

    def thing(self, node: ast.AST | None = None) -> Thing | None:
        """Return what the node (or another in the same scope) stands for."""
        return resolve(self.node if node is None else node, self.scope)


class Unit:
    """A function that a workflow executes itself: its own, or one that it calls.

    Attributes:
        function: the function.
        workflow: the workflow.
        scope: the scope of the function's body.
    """

    def __init__(self, function: Function, workflow: Function) -> None:
        self.function = function
        self.workflow = workflow
        self.scope = body_scope(function)

    @cached_property
    def spots(self) -> list[Spot]:
        """Every node of its code, functions inside of it included; steps, workflows and classes left out."""
        return list(_spots(self.scope, self.function.node))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """What each node stands in."""
        return {child: parent for parent in ast.walk(self.function.node) for child in ast.iter_child_nodes(parent)}

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Iterate over what a node stands in, from the inside out, up to the function."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def reached(self) -> Iterator[Function]:
        """Iterate over the other plain functions of the program that its code names, constructors included."""
        for spot in self.spots:
            if not isinstance(spot.node, (ast.Name, ast.Attribute)):
                continue
            match spot.thing():
                case Function(kind="plain", scope=scope) as function if not scope.is_within(self.scope):
                    yield function
                case Class() as made:
                    yield from (one for name in ("__init__", "__post_init__") if (one := made.method(name)) is not None)
                case _:
                    pass

    def finding(self, node: ast.AST, rule: str, what: str | None = None, instead: str | None = None) -> Finding:
        """Return a finding at a node.

        Args:
            node: where.
            rule: the rule's name.
            what: what was found; by default the node's code.
            instead: what to write; by default what the rule says.
        """
        return found_at(self.function, node, rule, what, instead, workflow=self.workflow.name)


def found_at(
    function: Function, node: ast.AST, rule: str, what: str | None, instead: str | None, *, workflow: str
) -> Finding:
    """Return a finding at a node of a function."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
    text = f"`{code(node)}`" if what is None else what
    return Finding(
        function.module.file, line, column, rule, text, instead or RULES[rule].instead, workflow, function.name
    )


def code(node: ast.AST) -> str:
    """Return a node's code in one line."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _spots(scope: Scope, function: FunctionNode) -> Iterator[Spot]:
    for node in own(scope.node):
        yield Spot(node, scope, function)
        if isinstance(node, FUNCTIONS):
            inner = decorated(Function(scope.module, node, scope))
            if inner.kind == "plain":
                yield from _spots(body_scope(inner), node)
        elif isinstance(node, COMPREHENSIONS):
            yield from _spots(scope_of(node, scope.module, scope), function)


def definitions(module: Source) -> Iterator[Function]:
    """Iterate over the steps and workflows that a module makes, with decorators or by calls, each once."""
    seen: set[ast.AST] = set()
    for found in _made_in(module.top):
        if found.node not in seen and found.module is module:
            seen.add(found.node)
            yield found


def _made_in(scope: Scope) -> Iterator[Function]:
    for node in own(scope.node):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = decorated(Function(scope.module, node, scope))
            if function.kind != "plain":
                yield function
            yield from _made_in(body_scope(function))
        elif isinstance(node, ast.ClassDef):
            yield from _made_in(Scope(scope.module, node, scope))
        elif isinstance(node, ast.Call):
            made = resolve(node, scope)
            if isinstance(made, Function) and made.kind != "plain":
                yield made


def units(workflow: Function) -> Iterator[Unit]:
    """Iterate over the functions that a workflow executes itself, its own first."""
    seen: set[ast.AST] = set()
    queue = [workflow]
    while queue:
        function = queue.pop(0)
        if function.node in seen:
            continue
        seen.add(function.node)
        unit = Unit(function, workflow)
        yield unit
        queue += unit.reached()


__all__ = ["Spot", "Unit", "code", "definitions", "found_at", "units"]
