"""What an expression stands for: a function of the program, a step, an object of some class, a name from outside.

Nothing is executed, so this is a matter of reading: imports, definitions and assignments are followed; what is assigned
twice, comes out of a call, or is passed in without an annotation is unknown, and nothing is said about it.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from perdure.checking.scopes import Binding, Scope, scope_of

if TYPE_CHECKING:
    from perdure.checking.scopes import FunctionNode, Source

_DECORATORS = {
    "perdure.step": "step",
    "perdure.steps.step": "step",
    "perdure.workflow.step": "step",
    "perdure.workflow": "workflow",
    "perdure.workflow.workflow": "workflow",
}
_DEEPEST = 20
"""Assignments and imports followed from one name."""


@dataclass(frozen=True, slots=True)
class Outside:
    """Something that is not of the program: ``time.time``."""

    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the program, a step, or a workflow.

    Attributes:
        module: where it is.
        node: its definition.
        scope: the scope that the definition stands in.
        kind: what the decorators make of it.
        via: "aio" or "sync" if that spelling of a call was asked for.
        owner: the class that it is a method of.
    """

    module: Source
    node: FunctionNode
    scope: Scope
    kind: Literal["plain", "step", "workflow"] = "plain"
    via: str = ""
    owner: Class | None = None

    @property
    def name(self) -> str:
        """Its name in the source; ``<lambda>`` for one that has none."""
        return getattr(self.node, "name", "<lambda>")

    @property
    def is_async(self) -> bool:
        """Whether it is a coroutine function."""
        return isinstance(self.node, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the program."""

    module: Source
    node: ast.ClassDef
    scope: Scope

    def method(self, name: str) -> Function | None:
        """Return a method (or property) that it defines itself."""
        for inner in self.node.body:
            if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and inner.name == name:
                return decorated(Function(self.module, inner, self.scope, owner=self))
        return None


@dataclass(frozen=True, slots=True)
class Object:
    """An object of a class; ``bare`` if it was made without arguments. ``scope``: where it was made."""

    of: Class | Outside
    scope: Scope
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """An attribute of an object whose class is not of the program."""

    owner: Object
    name: str


@dataclass(frozen=True, slots=True)
class Package:
    """A module of the program."""

    module: Source


Thing: TypeAlias = Outside | Function | Class | Object | Member | Package


def resolve(node: ast.AST | None, scope: Scope, depth: int = 0) -> Thing | None:
    """Return what an expression stands for; None if that is not known."""
    if depth > _DEEPEST:
        return None
    match node:
        case ast.Name(id=name):
            return _named(name, scope, depth)
        case ast.Attribute(value=value, attr=name):
            return _attribute(resolve(value, scope, depth + 1), name, depth)
        case ast.Call():
            return _made(node, scope, depth)
        case ast.Lambda():
            return Function(scope.module, node, scope)
        case ast.Constant(value=str(text)):  # an annotation in quotes
            try:
                return resolve(ast.parse(text, mode="eval").body, scope, depth + 1)
            except SyntaxError:
                return None
        case _:
            return None


def _named(name: str, scope: Scope, depth: int) -> Thing | None:
    found = scope.find(name)
    if found is None:
        return Outside(f"builtins.{name}") if hasattr(builtins, name) else None
    where, bindings = found
    if any(binding.kind == "import" for binding in bindings):
        bindings = [next(binding for binding in bindings if binding.kind == "import")]
    return _bound(bindings[0], where, depth + 1) if len(bindings) == 1 else None


def _bound(binding: Binding, scope: Scope, depth: int) -> Thing | None:
    match binding:
        case Binding("import"):
            return _imported(binding.dotted, scope, depth)
        case Binding("function", ast.FunctionDef() | ast.AsyncFunctionDef() as node):
            return decorated(Function(scope.module, node, scope))
        case Binding("class", ast.ClassDef() as node):
            return Class(scope.module, node, scope)
        case Binding("self", ast.ClassDef() as node) if scope.parent is not None:
            return Object(Class(scope.module, node, scope.parent), scope)
        case Binding("value" | "entered", node):
            return resolve(node, scope, depth)
        case Binding("parameter", node):
            annotated = resolve(node, scope, depth)
            return Object(annotated, scope) if isinstance(annotated, (Class, Outside)) else None
        case _:
            return None


def _imported(dotted: str, scope: Scope, depth: int) -> Thing | None:
    """Follow a dotted name as far as it is of the program."""
    program = scope.module.program
    names = dotted.split(".")
    for end in range(len(names), 0, -1):
        module = program.module(".".join(names[:end]))
        if module is None:
            continue
        found: Thing | None = Package(module)
        for name in names[end:]:
            found = _attribute(found, name, depth)
        return found
    return Outside(dotted)


def _attribute(owner: Thing | None, name: str, depth: int) -> Thing | None:
    match owner:
        case Outside():
            return Outside(f"{owner.name}.{name}")
        case Package():
            return _global(owner.module, name, depth)
        case Class():
            return owner.method(name)
        case Object(of=Class() as of):
            return of.method(name)
        case Object():
            return Member(owner, name)
        case Function(kind="step" | "workflow") if name == "fn":
            return replace(owner, kind="plain")
        case Function(kind="step" | "workflow") if name in {"aio", "sync", "with_options"}:
            return replace(owner, via=name)
        case _:
            return None


def _global(module: Source, name: str, depth: int) -> Thing | None:
    """Return a global name of a module of the program, or a module below it."""
    if name in module.top.names:
        return _named(name, module.top, depth + 1)
    inner = module.program.module(f"{module.name}.{name}")
    return None if inner is None else Package(inner)


def _made(call: ast.Call, scope: Scope, depth: int) -> Thing | None:
    """Return what a call gives."""
    of = resolve(call.func, scope, depth + 1)
    kind = _kind_made_by(call.func, of, scope, depth)
    if kind is not None:
        made = resolve(call.args[0], scope, depth + 1) if call.args else None
        return replace(made, kind=kind, via="") if isinstance(made, Function) else None
    match of:
        case Function(via="with_options"):
            return replace(of, via="")
        case Class() | Outside():
            return Object(of, scope, bare=not (call.args or call.keywords))
        case _:
            return None


def _kind_made_by(
    decorator: ast.expr, of: Thing | None, scope: Scope, depth: int
) -> Literal["step", "workflow"] | None:
    """Whether ``decorator(function)`` makes a step or a workflow, bare or with options."""
    if isinstance(of, Outside) and of.name in _DECORATORS:
        return "step" if _DECORATORS[of.name] == "step" else "workflow"
    if isinstance(decorator, ast.Call):
        return _kind_made_by(decorator.func, resolve(decorator.func, scope, depth + 1), scope, depth + 1)
    return None


def decorated(function: Function) -> Function:
    """Return a function as its decorators make it."""
    for decorator in getattr(function.node, "decorator_list", ()):
        kind = _kind_made_by(decorator, resolve(decorator, function.scope), function.scope, 0)
        if kind is not None:
            return replace(function, kind=kind)
    return function


def body_scope(function: Function) -> Scope:
    """Return the scope that a function's body has."""
    scope = scope_of(function.node, function.module, function.scope)
    arguments = function.node.args
    first = next(iter((*arguments.posonlyargs, *arguments.args)), None)
    is_static = any(
        isinstance(one, ast.Name) and one.id in {"staticmethod", "classmethod"}
        for one in getattr(function.node, "decorator_list", ())
    )
    if function.owner is not None and first is not None and not is_static:
        scope.names[first.arg] = [Binding("self", function.owner.node)]
    return scope


__all__ = ["Class", "Function", "Member", "Object", "Outside", "Package", "Thing", "body_scope", "decorated", "resolve"]
