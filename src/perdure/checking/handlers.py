"""Handlers that keep a cancellation to themselves, and what ``finally`` does although the run only goes to rest.

A cancel reaches a workflow as ``CancelledError`` where it waits. And when a run leaves memory, its code is unwound by
an exception that no handler may stop: handlers and ``finally`` blocks are executed then, although nothing has ended.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from perdure.checking.resolving import Function, Outside, resolve
from perdure.checking.scopes import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perdure.checking.findings import Finding
    from perdure.checking.reaching import Spot, Unit
    from perdure.checking.scopes import Scope

_ALL = {"builtins.BaseException"}
_CANCEL = {"asyncio.CancelledError", "asyncio.exceptions.CancelledError", "concurrent.futures.CancelledError"}
_LOGS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
_SUPPRESS = {"contextlib.suppress"}


def found(unit: Unit) -> Iterator[Finding]:
    """Iterate over the handlers of a unit that stop what must not be stopped, and over effects of unwinding."""
    for spot in unit.spots:
        match spot.node:
            case ast.Try() | ast.TryStar() as block if _waits(block.body, spot.scope):
                yield from _handlers(unit, spot, block)
                yield from _unwinding(unit, spot, block)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body) if _waits(body, spot.scope):
                for item in items:
                    if isinstance(item.context_expr, ast.Call) and _suppresses(item.context_expr, spot.scope):
                        yield from _unless_joined(unit, item.context_expr, body)
            case _:
                pass


def _handlers(unit: Unit, spot: Spot, block: ast.Try | ast.TryStar) -> Iterator[Finding]:
    for handler in block.handlers:
        if _raises(handler.body) or not _catches(handler.type, spot.scope):
            continue
        shown = "`except:`" if handler.type is None else f"`except {ast.unparse(handler.type)}:`"
        yield from _unless_joined(unit, handler, block.body, shown)
    for statement in _flat(block.finalbody):
        if isinstance(statement, ast.Return):
            yield unit.finding(statement, "swallow", "`return` in a `finally`", "return after the try")


def _unwinding(unit: Unit, spot: Spot, block: ast.Try | ast.TryStar) -> Iterator[Finding]:
    """What people see of unwinding: output and log lines in ``finally``, or in a handler of everything."""
    places: list[Iterable[ast.stmt]] = [block.finalbody]
    places += [one.body for one in block.handlers if one.type is None or _is_in(one.type, _ALL, spot.scope)]
    for body in places:
        for node in _flat(body):
            if isinstance(node, ast.Call) and _is_output(node, spot.scope):
                yield unit.finding(node, "finally-effect", f"`{ast.unparse(node.func)}(…)` in a `finally` or `except`")


def _is_output(call: ast.Call, scope: Scope) -> bool:
    of = resolve(call.func, scope)
    if isinstance(of, Outside):
        return of.name == "builtins.print" or of.name.startswith("logging.")
    # Silent on replay, unlike others.
    is_run_logger = "ctx" in ast.unparse(call.func) or "context" in ast.unparse(call.func)
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in _LOGS
        and "log" in ast.unparse(call.func.value).lower()
        and not is_run_logger
    )


def _unless_joined(unit: Unit, node: ast.AST, body: list[ast.stmt], what: str | None = None) -> Iterator[Finding]:
    """Give a finding, unless the body does nothing but wait for a task that the unit has cancelled itself."""
    match body:
        case [ast.Expr(value=ast.Await(value=ast.Name(id=name)))]:
            for spot in unit.spots:
                match spot.node:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id=cancelled), attr="cancel")) if cancelled == name:
                        return
                    case _:
                        pass
        case _:
            pass
    yield unit.finding(node, "swallow", what)


def _catches(kind: ast.expr | None, scope: Scope) -> bool:
    return kind is None or _is_in(kind, _ALL | _CANCEL, scope)


def _is_in(kind: ast.expr, names: set[str], scope: Scope) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_is_in(one, names, scope) for one in kind.elts)
    of = resolve(kind, scope)
    return isinstance(of, Outside) and of.name in names


def _suppresses(call: ast.Call, scope: Scope) -> bool:
    of = resolve(call.func, scope)
    is_suppress = isinstance(of, Outside) and of.name in _SUPPRESS
    return is_suppress and any(_is_in(one, _ALL | _CANCEL, scope) for one in call.args)


def _waits(body: Iterable[ast.stmt], scope: Scope) -> bool:
    """Whether the run may wait somewhere in a block: at an ``await``, or at a call of a step in a sync workflow."""
    for node in _flat(body):
        if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
            return True
        if isinstance(node, ast.Call):
            match resolve(node.func, scope):
                case Function(kind="step" | "workflow"):
                    return True
                case Outside(name=name) if name.startswith("perdure.sync."):
                    return True
                case _:
                    pass
    return False


def _raises(body: Iterable[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Raise) for node in _flat(body))


def _flat(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Iterate over a block's nodes, functions inside of it left out."""
    for node in body:
        yield node
        if not isinstance(node, FUNCTIONS):
            yield from _flat(ast.iter_child_nodes(node))


__all__ = ["found"]
