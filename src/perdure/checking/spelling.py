"""Calls of steps and waits in the wrong form: not awaited, of the wrong colour, in a loop; and steps that yield."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from perdure.checking.reaching import code, found_at
from perdure.checking.resolving import Function, Outside
from perdure.checking.scopes import own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.checking.findings import Finding
    from perdure.checking.reaching import Spot, Unit

_COROUTINES = {
    "perdure.sleep",
    "perdure.sleep_until",
    "perdure.parallel",
    "perdure.map",
    "perdure.arun",
    "asyncio.sleep",
    "asyncio.wait",
    "asyncio.wait_for",
}
"""What gives coroutines. (``asyncio.gather`` gives a future, which goes on by itself.)"""
_SLEEPS = {"perdure.sleep", "asyncio.sleep", "perdure.sync.sleep"}
_SHORT = 60
"""A loop that sleeps for less than so many seconds waits for something rather than for the time."""


def found(unit: Unit) -> Iterator[Finding]:
    """Iterate over the calls of a unit that are not written as they must be."""
    for spot in unit.spots:
        match spot.node:
            case ast.Call() as call:
                spelling = _wrong_colour(call, spot, unit)
                if spelling:
                    instead = f"write `{spelling}`"
                    yield unit.finding(call, "colour", f"`{code(call.func)}(…)`", instead)
                elif _gives_coroutine(call, spot) and _is_dropped(call, unit):
                    yield unit.finding(call, "not-awaited", f"`{code(call.func)}(…)`")
            case ast.While() as loop if _only_sleeps(loop, spot):
                yield unit.finding(loop, "polling", f"`while {code(loop.test)}`")
            case _:
                pass


def generators(function: Function) -> Iterator[Finding]:
    """Give a finding if a step or a workflow yields."""
    for node in own(function.node):
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            workflow = function.name if function.kind == "workflow" else ""
            what = f"{function.kind} `{function.name}`"
            yield found_at(function, node, "generator", what, None, workflow=workflow)
            return


def _wrong_colour(call: ast.Call, spot: Spot, unit: Unit) -> str:
    """Return how a call of a step or a workflow is to be written here; empty if it is right as it is."""
    of = spot.thing(call.func)
    if not isinstance(of, Function) or of.kind == "plain" or of.via == "with_options" or _makes(call, spot):
        return ""
    called = code(call.func).removesuffix(".aio").removesuffix(".sync")
    if isinstance(spot.function, ast.AsyncFunctionDef):
        if of.via == "sync" or (not of.via and not of.is_async):
            return f"await {called}{'' if of.is_async else '.aio'}(…)"
        return ""
    # A plain function may be called from workflows of both colours; a lambda runs where it is called.
    is_own = spot.function is unit.workflow.node
    if is_own and (of.via == "aio" or (not of.via and of.is_async)):
        return f"{called}{'.sync' if of.is_async else ''}(…)"
    return ""


def _makes(call: ast.Call, spot: Spot) -> bool:
    """Whether a call makes a step or a workflow rather than calling one."""
    return isinstance(spot.thing(call), Function)


def _gives_coroutine(call: ast.Call, spot: Spot) -> bool:
    match spot.thing(call.func):
        case Function(kind="plain") as function:
            return function.is_async
        case Function(via="with_options"):
            return False
        case Function(via="") as function:
            return function.is_async
        case Function(via=via):
            return via == "aio"
        case Outside(name=name):
            return name in _COROUTINES
        case _:
            return False


def _is_dropped(call: ast.Call, unit: Unit) -> bool:
    """Whether nothing is done with what a call gives: it stands alone, or gets a name that is never used."""
    match unit.parents.get(call):
        case ast.Expr():
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return not any(
                isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
                for node in ast.walk(unit.function.node)
            )
        case _:
            return False


def _only_sleeps(loop: ast.While, spot: Spot) -> bool:
    """Whether all that a loop waits for is a short time."""
    if any(isinstance(node, ast.Await) for node in ast.walk(loop.test)):
        return False
    sleeps = False
    for statement in loop.body:
        for node in ast.walk(statement):
            if isinstance(node, (ast.AsyncFor, ast.AsyncWith)):
                return False
            if not isinstance(node, ast.Call):
                continue
            of = spot.thing(node.func)
            if isinstance(of, Outside) and of.name in _SLEEPS:
                if not _is_short(node):
                    return False
                sleeps = True
            elif isinstance(of, Function) or of is None:
                return False  # a step, or something that may wait for one
    return sleeps


def _is_short(call: ast.Call) -> bool:
    match call.args:
        case [ast.Constant(value=int() | float() as seconds)]:
            return 0 < seconds < _SHORT
        case [ast.Constant(value=str(text))]:
            return text.endswith("s") and text[:-1].replace(".", "", 1).isdigit() and float(text[:-1]) < _SHORT
        case _:
            return False


__all__ = ["found", "generators"]
