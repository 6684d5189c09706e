"""What a page is: what it reads of the store, its JSON twin, and the template that shows the same to people.

A page's ``read`` returns plain data made by ``perdure.describe``, and that is all its template gets: so whatever is
redacted is in neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Route

from perdure.web.asking import Asked, read_query
from perdure.web.rendering import render
from perdure.web.spaces import namespace_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from perdure.store.protocol import Store
    from perdure.web.asking import Parameter
    from perdure.web.reading import Reader


@dataclass(frozen=True, slots=True)
class Page:
    """A page and its twin.

    Attributes:
        path: where it is; its twin is under ``/api``. One about a run has the run's id after that.
        name: of the operation, for programs.
        summary: what it shows, a sentence.
        read: reads what is shown, on a thread.
        schema: of what ``read`` returns: a name of ``perdure.web.schemas``.
        template: shows it; None: it has only the twin.
        of: what it is about, as its address calls it: "run_id", or "key" of a schedule; empty: about no one thing.
        parameters: what it can be asked for.
        draw: adds what only people see, as shapes of drawings, to what was read and what was asked for.
        gather: reads instead what takes more than the store; given the namespace and what is asked for.
    """

    path: str
    name: str
    summary: str
    read: Callable[[Asked], dict[str, Any]]
    schema: str
    template: str | None = None
    of: str = ""
    parameters: tuple[Parameter, ...] = ()
    draw: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]] = lambda _, __: {}
    gather: Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]] | None = None


def routes_of(page: Page, reader: Reader) -> list[Route]:
    """Return where a page and its twin are answered."""
    path = page.path + (f"/{{{page.of}:path}}" if page.of else "")

    async def data_of(request: Request, query: Mapping[str, Any]) -> dict[str, Any]:
        about: str = request.path_params.get(page.of, "")
        namespace = namespace_of(request)
        if page.gather is not None:
            return await page.gather(namespace, query)

        def read(store: Store) -> dict[str, Any]:
            return page.read(Asked(store, namespace, about, query))

        return await reader.read(read)

    async def twin(request: Request) -> Response:
        return JSONResponse(await data_of(request, read_query(page.parameters, request.query_params, blank=False)))

    async def show(request: Request) -> Response:
        query = read_query(page.parameters, request.query_params, blank=True)
        data = await data_of(request, query)
        assert page.template is not None
        return render(request, page.template, {**data, **page.draw(data, query)})

    routes = [Route(f"/api{path}", twin, methods=["GET"])]
    if page.template is not None:
        routes.append(Route(path, show, methods=["GET"]))
    return routes


__all__ = ["Page", "routes_of"]
