"""What can be done with a run: each is a page that asks for what it needs, and a POST that does it.

Who did it is kept in the run's log, and said in the process's.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route

from perdure import describe
from perdure.model.records import Status
from perdure.operations import CANCELLABLE
from perdure.operations.forking import fork as fork_run
from perdure.operations.holding import take_back
from perdure.operations.signalling import send
from perdure.signals import message
from perdure.store.controlling import PAUSABLE, RESUMABLE
from perdure.telemetry import lines
from perdure.telemetry.logs import say
from perdure.web.fields import fields_of, schema_of
from perdure.web.forms import Given
from perdure.web.logs import run_of
from perdure.web.messages import message_of, signals_of
from perdure.web.problems import Problem, wants_html
from perdure.web.rendering import Links, render
from perdure.web.spaces import namespace_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from perdure.model.records import RunRow
    from perdure.operations import Operations
    from perdure.store.protocol import Store
    from perdure.web.reading import Reader
    from perdure.web.settings import Visitor


class RunOrder(NamedTuple):
    """An action as it is asked for.

    Attributes:
        operations: what is done with runs.
        row: the run.
        given: what came along.
        by: who asks, for reasons.
        reader: of the store.
    """

    operations: Operations
    row: RunRow
    given: Given
    by: Visitor
    reader: Reader

    def reason(self) -> str:
        """Return what they say of why."""
        return self.given.text("reason").strip()


class Done(NamedTuple):
    """What became of an action: what is said of it, and the run to look at."""

    said: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be done with a run.

    Attributes:
        verb: its name, and where it is.
        summary: what it does, a sentence.
        fields: what it takes, as a JSON schema has properties.
        required: those that must be there.
        states: in which it can be done.
        act: does it.
        ask: what its page needs to know besides the run.
    """

    verb: str
    summary: str
    fields: dict[str, dict[str, Any]]
    required: tuple[str, ...]
    states: frozenset[Status]
    act: Callable[[RunOrder], Awaitable[Done]]
    ask: Callable[[Store, RunRow, Reader], dict[str, Any]] = lambda _, __, ___: {}


async def _cancel(order: RunOrder) -> Done:
    row, force = order.row, order.given.flag("force")
    await order.operations.call(lambda: take_back(order.operations.store, row))
    made = await order.operations.cancel(row.run_id, order.reason(), force=force)
    return Done("cancelled" if made is Status.CANCELLED else "cancel-asked", row.run_id)


async def _pause(order: RunOrder) -> Done:
    await order.operations.call(lambda: take_back(order.operations.store, order.row))
    made = await order.operations.pause(order.row.run_id, order.reason())
    return Done("paused" if made is Status.PAUSED else "pause-asked", order.row.run_id)


async def _resume(order: RunOrder) -> Done:
    drift = order.given.flag("accept_drift")
    await order.operations.resume(order.row.run_id, accept_drift=drift, reason=order.reason())
    return Done("resumed", order.row.run_id)


async def _fork(order: RunOrder) -> Done:
    given = order.given
    step = given.text("from_step")
    if not step:
        raise Problem(422, "bad_field", "no step is named to fork from", "name the first step to be done anew")
    made = await fork_run(
        order.operations,
        order.row.run_id,
        step,
        new_id=given.text("run_id") or None,
        keep_keys=given.flag("keep_keys"),
    )
    return Done("forked", made.row.run_id)


async def _signal(order: RunOrder) -> Done:
    given, reader, row = order.given, order.reader, order.row
    name = given.text("signal")

    def known(store: Store) -> Any:
        return signals_of(row, store.read_events(row.run_key, 0, 1)[0], reader.definitions).get(name)

    signal = await reader.read(known)
    value = message_of(given, fields_of(schema_of(signal.codec), "Message") if signal is not None else [])
    what = message(signal or name, value, given.text("idempotency_key") or None)
    sent = await send(order.operations, row.run_id, what)
    return Done("signalled" if sent else "signalled-before", row.run_id)


def _steps(store: Store, row: RunRow, reader: Reader) -> dict[str, Any]:
    log = reader.logs.of(store, row)
    with log.guard:
        return {"steps": [*log.view.steps, *log.view.children][-500:]}


def _signals(store: Store, row: RunRow, reader: Reader) -> dict[str, Any]:
    log = reader.logs.of(store, row)
    standing = store.standing(row.run_key)
    awaited = list((standing.awaits if standing is not None else None) or log.view.awaits)
    known = signals_of(row, store.read_events(row.run_key, 0, 1)[0], reader.definitions)
    return {
        "awaited": awaited,
        "signals": [*awaited, *sorted(set(known).difference(awaited))],
        "forms": {name: fields_of(schema_of(one.codec), "Message") for name, one in known.items()},
        "key": secrets.token_hex(8),
    }


_TEXT = {"type": "string", "maxLength": 2000}
_FLAG = {"type": "boolean", "default": False}

ACTIONS: Final = (
    Action(
        "cancel",
        "Ask a run to end: it cleans up, undoes what is to be undone, and ends as cancelled.",
        {"reason": _TEXT, "force": _FLAG},
        (),
        CANCELLABLE,
        _cancel,
    ),
    Action("pause", "Let a run rest until it is resumed.", {"reason": _TEXT}, (), PAUSABLE, _pause),
    Action(
        "resume",
        "Let a run go on that has failed, was cancelled, or is blocked or paused.",
        {"reason": _TEXT, "accept_drift": _FLAG},
        (),
        frozenset(RESUMABLE),
        _resume,
    ),
    Action(
        "fork",
        "Make another run that has recorded what this one had when it came to a step, and does the rest anew.",
        {"from_step": _TEXT, "run_id": {**_TEXT, "maxLength": 500}, "keep_keys": _FLAG},
        ("from_step",),
        frozenset(Status),
        _fork,
        _steps,
    ),
    Action(
        "signal",
        "Send a run a signal; it is kept until the run comes to wait for it.",
        {"signal": {**_TEXT, "maxLength": 200}, "value": {}, "idempotency_key": {**_TEXT, "maxLength": 500}},
        ("signal",),
        CANCELLABLE,
        _signal,
        _signals,
    ),
)


def possible(status: str) -> list[str]:
    """Return the verbs of what can be done with a run in this status."""
    found = Status[status.upper()]
    return [one.verb for one in ACTIONS if found in one.states]


def _about(row: RunRow) -> dict[str, Any]:
    return {"run_id": row.run_id, "workflow": row.workflow, "namespace": row.namespace}


def routes_of(action: Action, reader: Reader) -> list[Route]:
    """Return where an action is asked for and done."""
    path = f"/{action.verb}/{{run_id:path}}"

    async def ask(request: Request) -> Response:
        run_id: str = request.path_params["run_id"]
        namespace = namespace_of(request)

        def read(store: Store) -> dict[str, Any]:
            row = run_of(store, run_id, namespace)
            return {
                "run": describe.row(row),
                "verb": action.verb,
                "summary": action.summary,
                "possible": row.status in action.states,
                "asked": dict(request.query_params),
                **action.ask(store, row, reader),
            }

        return render(request, "act.html", await reader.read(read))

    async def act(request: Request) -> Response:
        run_id: str = request.path_params["run_id"]
        namespace = namespace_of(request)
        given = Given(request, await request.body())
        given.only(*action.fields)
        if missing := [name for name in action.required if not given.text(name)]:
            raise Problem(422, "bad_field", f"{missing[0]} is missing", "")
        row = await reader.read(lambda store: run_of(store, run_id, namespace))
        visitor: Visitor = request.state.visitor
        done = await action.act(RunOrder(await reader.operations(namespace, visitor), row, given, visitor, reader))
        say(lines.DASHBOARD_DONE, done=done.said, visitor=visitor.name, **_about(row))
        if wants_html(request):
            link = Links(request.scope.get("root_path", ""))
            return RedirectResponse(link("/runs", done.run_id, done=done.said), status_code=303)
        after = await reader.read(lambda store: describe.row(run_of(store, done.run_id, namespace)))
        return JSONResponse({"done": done.said, "run": after})

    return [
        Route(path, ask, methods=["GET"]),
        Route(path, act, methods=["POST"]),
        Route(f"/api{path}", act, methods=["POST"]),
    ]


__all__ = ["ACTIONS", "Action", "possible", "routes_of"]
