"""Scopes of a source file: which names are bound in each, and to what."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from perdure.checking.findings import Ignored

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Binding(NamedTuple):
    """One place that gives a name a value.

    Attributes:
        kind: what sort of place it is. "value" has the expression that is assigned, "entered" one that a ``with``
            enters, "parameter" the annotation, "self" the class, "import" nothing but the dotted name.
        node: the definition or expression, if there is one.
        dotted: what is imported.
    """

    kind: Literal["import", "function", "class", "value", "entered", "parameter", "self", "other"]
    node: ast.AST | None = None
    dotted: str = ""


class Lookup(Protocol):
    """The source files of a program."""

    def module(self, name: str, /) -> Source | None:
        """Return the one with this dotted name, if it is of the program."""
        ...


class Source(Protocol):
    """A source file.

    Attributes:
        name: its dotted name below the program's root.
        file: where it is, as it is shown.
    """

    name: str
    file: str

    @property
    def program(self) -> Lookup:
        """The program that it is part of."""
        ...

    @property
    def ignored(self) -> Mapping[int, Ignored]:
        """Its comments that let findings stay, by line."""
        ...

    @property
    def top(self) -> Scope:
        """The scope of its global names."""
        ...

    def absolute(self, name: str, level: int, /) -> str:
        """Return the dotted name that ``from ..name import`` means here; ``level`` counts the dots."""
        ...


@dataclass(eq=False, slots=True)
class Scope:
    """A module, function or comprehension, and the names it binds."""

    module: Source
    node: ast.AST
    parent: Scope | None
    names: dict[str, list[Binding]] = field(default_factory=dict)
    elsewhere: dict[str, Literal["global", "nonlocal"]] = field(default_factory=dict)
    """Names that are declared to be bound outside."""

    def find(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """Return the scope that binds a name as it is seen from here, and how; None for builtins and the unknown."""
        scope: Scope | None = self
        while scope is not None:
            declared = scope.elsewhere.get(name)
            if declared == "global":
                top = scope.module.top
                return (top, top.names[name]) if name in top.names else None
            if declared is None and name in scope.names:
                return scope, scope.names[name]
            scope = scope.parent
        return None

    @property
    def function(self) -> Scope:
        """The function (or module) whose code this is: comprehensions are looked through."""
        scope = self
        while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
            scope = scope.parent
        return scope

    def is_within(self, other: Scope) -> bool:
        """Return whether this is the other scope or one inside of it."""
        scope: Scope | None = self
        while scope is not None:
            if scope is other:
                return True
            scope = scope.parent
        return False


def scope_of(node: ast.AST, module: Source, parent: Scope | None) -> Scope:
    """Return the scope that a module, function or comprehension opens."""
    scope = Scope(module, node, parent)
    if isinstance(node, FUNCTIONS):
        arguments = node.args
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            _bind(scope, one.arg, Binding("parameter", one.annotation))
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                _bind(scope, rest.arg, Binding("other"))
    for inner in own(node):
        _bindings(scope, inner)
    return scope


def own(node: ast.AST) -> Iterator[ast.AST]:
    """Iterate over the nodes of a scope's own code, nested scopes left out but for where they are written."""
    stack: list[ast.AST] = list(reversed(list(_body(node))))
    while stack:
        inner = stack.pop()
        yield inner
        if not isinstance(inner, (*FUNCTIONS, *COMPREHENSIONS, ast.ClassDef)):
            stack.extend(reversed(list(ast.iter_child_nodes(inner))))


def _body(node: ast.AST) -> Iterable[ast.AST]:
    if isinstance(node, ast.Lambda):
        return [node.body]
    if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.body
    return ast.iter_child_nodes(node)


def _bind(scope: Scope, name: str, binding: Binding) -> None:
    scope.names.setdefault(name, []).append(binding)


def _bindings(scope: Scope, node: ast.AST) -> None:  # noqa: C901, PLR0912 - one case for each way to bind a name
    match node:
        case ast.Import():
            for alias in node.names:
                dotted = alias.name if alias.asname else alias.name.partition(".")[0]
                _bind(scope, alias.asname or dotted, Binding("import", dotted=dotted))
        case ast.ImportFrom():
            origin = scope.module.absolute(node.module or "", node.level)
            for alias in node.names:
                _bind(scope, alias.asname or alias.name, Binding("import", dotted=f"{origin}.{alias.name}"))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            _bind(scope, node.name, Binding("function", node))
        case ast.ClassDef():
            _bind(scope, node.name, Binding("class", node))
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                _bind_target(scope, target, Binding("value", value))
        case ast.AnnAssign(target=ast.Name(id=name), value=value, annotation=annotation):
            _bind(scope, name, Binding("parameter", annotation) if value is None else Binding("value", value))
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            _bind(scope.function, name, Binding("value", value))
        case ast.AugAssign(target=ast.Name(id=name)):
            _bind(scope, name, Binding("other"))
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            _bind_target(scope, node.target, Binding("other"))
        case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
            _bind_target(scope, target, Binding("entered", value))
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            _bind(scope, name, Binding("other"))
        case ast.MatchMapping(rest=str(name)):
            _bind(scope, name, Binding("other"))
        case ast.Global(names=names):
            scope.elsewhere.update(dict.fromkeys(names, "global"))
        case ast.Nonlocal(names=names):
            scope.elsewhere.update(dict.fromkeys(names, "nonlocal"))
        case _:
            pass


def _bind_target(scope: Scope, target: ast.expr, binding: Binding) -> None:
    if isinstance(target, ast.Name):
        _bind(scope, target.id, binding)
        return
    for name in ast.walk(target):
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
            _bind(scope, name.id, Binding("other"))


__all__ = ["COMPREHENSIONS", "FUNCTIONS", "Binding", "FunctionNode", "Scope", "Source", "own", "scope_of"]
