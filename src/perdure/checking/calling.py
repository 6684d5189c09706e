"""Calls that go outside the run or differ on every replay: clocks, chance, I/O, threads, blocking waits."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from perdure.checking.reaching import code
from perdure.checking.resolving import Member, Object, Outside
from perdure.checking.tables import ARGUMENTLESS, IN_LOOP, MADE_OF, PATH_IO, PATHS, READS_PATH, rule_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.checking.findings import Finding
    from perdure.checking.reaching import Spot, Unit

_SYNC_SLEEP = "write perdure.sync.sleep(…)"
_ASYNC_SLEEP = "write `await perdure.sleep(…)`"


def found(unit: Unit) -> Iterator[Finding]:
    """Iterate over what a unit calls, or asks the environment for, that it should not."""
    for spot in unit.spots:
        rule = _call(unit, spot) if isinstance(spot.node, ast.Call) else _read(unit, spot)
        if rule == "sleep":
            is_async = isinstance(spot.function, ast.AsyncFunctionDef)
            yield unit.finding(spot.node, rule, instead=_ASYNC_SLEEP if is_async else _SYNC_SLEEP)
        elif rule is not None:
            what = f"`{code(spot.node.func)}(…)`" if isinstance(spot.node, ast.Call) else None
            yield unit.finding(spot.node, rule, what)


def _call(unit: Unit, spot: Spot) -> str | None:
    """Return the rule that a call breaks."""
    call = spot.node
    assert isinstance(call, ast.Call)
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    match spot.thing(call.func):
        case None | Member() if method in IN_LOOP:
            return "thread"
        case Outside(name=name):
            if name in ARGUMENTLESS and call.args:
                return None
            return rule_for(name)
        case Member(owner=Object(of=Outside(name=name)) as owner):
            if name in PATHS:
                return "io" if method in PATH_IO else None
            if name == "random.Random" and not owner.bare:
                return None
            # What the unit made itself was found where it was made.
            return None if owner.scope.is_within(unit.scope) and rule_for(name) is not None else MADE_OF.get(name)
        case None if method in READS_PATH:
            return "io"
        case _:
            return None


def _read(unit: Unit, spot: Spot) -> str | None:
    """Return the rule that a name breaks that is not called: only what the environment holds is read like that."""
    if not isinstance(spot.node, (ast.Name, ast.Attribute)) or not isinstance(spot.node.ctx, ast.Load):
        return None
    parent = unit.parents.get(spot.node)
    if isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Call) and parent.func is spot.node):
        return "environment" if _is_environ(spot) else None
    thing = spot.thing()
    return "environment" if isinstance(thing, Outside) and rule_for(thing.name) == "environment" else None


def _is_environ(spot: Spot) -> bool:
    thing = spot.thing()
    return isinstance(thing, Outside) and thing.name in {"os.environ", "os.environb"}
