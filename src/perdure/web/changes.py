"""What can be changed besides runs: each is a POST, by form and by program, and some have a page that asks first.

Who did it is in the logs of runs, among the deeds of queues and schedules, and in the process's log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route

from perdure.telemetry import lines
from perdure.telemetry.logs import say
from perdure.web.asking import read_query
from perdure.web.forms import Given
from perdure.web.problems import Problem, wants_html
from perdure.web.rendering import Links, render
from perdure.web.spaces import namespace_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from perdure.operations import Operations
    from perdure.web.asking import Parameter
    from perdure.web.reading import Reader
    from perdure.web.settings import Visitor


class Order(NamedTuple):
    """A change as it is asked for.

    Attributes:
        operations: what is done in the namespace.
        about: what is to be changed; empty if the address does not say.
        query: what the address asks for besides.
        given: what came along.
        by: who asks.
        reader: of the store.
    """

    operations: Operations
    about: str
    query: Mapping[str, Any]
    given: Given
    by: Visitor
    reader: Reader

    @property
    def namespace(self) -> str:
        """Where it is to be changed."""
        return self.operations.namespace

    def reason(self) -> str:
        """Return what they say of why."""
        return self.given.text("reason").strip()


class Changed(NamedTuple):
    """What became of a change.

    Attributes:
        said: what is said of it, one of ``rendering.FLASHES``.
        told: the answer to programs, besides that.
        path: of the page that people look at next.
        about: what that is about.
        what: what was changed, unless the address says it.
        page: what people are shown instead: a template, its data and its status.
    """

    said: str
    told: dict[str, Any]
    path: str = ""
    about: str | None = None
    what: str = ""
    page: tuple[str, dict[str, Any], int] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Something that can be changed.

    Attributes:
        verb: where it is.
        name: of the operation, for programs.
        summary: what it does, a sentence.
        fields: what it takes, as a JSON schema has properties.
        required: those that must be there.
        schema: of the answer: a name of ``perdure.web.schemas``.
        act: does it.
        of: what it is about, as of ``Page``.
        parameters: what stands in its address besides.
        ask: reads what its page shows that asks first, on a thread; None: it has none.
        template: of that page.
    """

    verb: str
    name: str
    summary: str
    fields: dict[str, dict[str, Any]]
    required: tuple[str, ...]
    schema: str
    act: Callable[[Order], Awaitable[Changed]]
    of: str = ""
    parameters: tuple[Parameter, ...] = ()
    ask: Callable[[Asking], Awaitable[dict[str, Any]]] | None = None
    template: str = ""


class Asking(NamedTuple):
    """A page that asks first: of what, what for, and where that is read."""

    reader: Reader
    namespace: str
    about: str
    query: Mapping[str, Any]


def routes_of(change: Change, reader: Reader) -> list[Route]:
    """Return where a change is asked for and made."""
    path = f"/{change.verb}" + (f"/{{{change.of}:path}}" if change.of else "")

    async def ask(request: Request) -> Response:
        assert change.ask is not None
        query = read_query(change.parameters, request.query_params, blank=True)
        about: str = request.path_params.get(change.of, "")
        told = await change.ask(Asking(reader, namespace_of(request), about, query))
        return render(request, change.template, {**told, "verb": change.verb, "summary": change.summary})

    async def act(request: Request) -> Response:
        given = Given(request, await request.body())
        given.only(*change.fields)
        if missing := [name for name in change.required if name not in given]:
            raise Problem(422, "bad_field", f"{missing[0]} is missing", "")
        about: str = request.path_params.get(change.of, "")
        query = read_query(change.parameters, request.query_params, blank=wants_html(request))
        visitor: Visitor = request.state.visitor
        operations = await reader.operations(namespace_of(request), visitor)
        done = await change.act(Order(operations, about, query, given, visitor, reader))
        if done.said:
            say(
                lines.DASHBOARD_CHANGED,
                what=done.what or about,
                done=done.said,
                visitor=visitor.name,
                namespace=operations.namespace,
            )
        if not wants_html(request):
            return JSONResponse({"done": done.said, **done.told})
        if done.page is not None:
            template, data, status = done.page
            told = {**data, "verb": change.verb, "summary": change.summary}
            return render(request, template, told, status=status)
        link = Links(request.scope.get("root_path", ""))
        return RedirectResponse(link(done.path, done.about, done=done.said), status_code=303)

    routes = [Route(path, act, methods=["POST"]), Route(f"/api{path}", act, methods=["POST"])]
    if change.ask is not None:
        routes.append(Route(path, ask, methods=["GET"]))
    return routes


__all__ = ["Asking", "Change", "Changed", "Order", "routes_of"]
