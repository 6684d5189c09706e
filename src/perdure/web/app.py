"""The dashboard as an ASGI application, to be served by itself or mounted in another one."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from perdure.clock import SystemClock
from perdure.model.redaction import Redaction
from perdure.telemetry import lines
from perdure.telemetry.logs import say
from perdure.web import actions, assets, changes, many, pages, queues, schedules, start
from perdure.web.artifacts import download
from perdure.web.guarding import Guard, cookie
from perdure.web.live import Live
from perdure.web.log import LOG
from perdure.web.openapi import description
from perdure.web.problems import Problem, problem_of, refuse
from perdure.web.queues import QUEUES
from perdure.web.reading import Reader
from perdure.web.rendering import Links, render
from perdure.web.run import run_page
from perdure.web.runs import runs_page
from perdure.web.schedules import SCHEDULE, SCHEDULES
from perdure.web.settings import settings
from perdure.web.spaces import Spaces
from perdure.web.start import start_page
from perdure.web.trouble import trouble_page
from perdure.web.visitors import SESSION_AGE, SESSION_COOKIE, Doorman
from perdure.web.workers import workers_page
from perdure.web.working import STOP, job_page

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
    from pathlib import Path

    from starlette.requests import Request

    from perdure.engine import Engine
    from perdure.model.coding import Codec
    from perdure.store.protocol import Store
    from perdure.sync import Engine as SyncEngine
    from perdure.web.pages import Page
    from perdure.web.settings import Settings, Visitor
    from perdure.workflow import Workflow

CHANGES: Final = (*queues.CHANGES, *schedules.CHANGES, *many.CHANGES, STOP, *start.CHANGES)
THEMES: Final = frozenset({"light", "dark", "auto"})
_YEAR: Final = 365 * 86400


def dashboard(  # noqa: PLR0913 - its options
    store: Engine | SyncEngine | Store | str | Path | None = None,
    *,
    namespace: str | None = None,
    token: str | None = None,
    auth: Callable[[Request], Visitor | str | Awaitable[Visitor | str | None] | None] | None = None,
    hosts: Iterable[str] = (),
    read_only: bool = False,
    redact: Iterable[str] = (),
    codecs: Iterable[Codec] | None = None,
    workflows: Iterable[Workflow[Any, Any]] = (),
) -> Starlette:
    """Return the dashboard as an ASGI application, to be served or mounted.

    ``app.mount("/perdure", dashboard(engine))`` shows it within another application.

    It executes no workflows and creates no store. Unless it is told how to know who asks, it answers this machine only,
    under names that always mean it.

    Args:
        store: an engine, whose store and namespace are shown and whose workflows can be started and sent signals by
            form; the address of a store; or an open one. By default see ``perdure.config``.
        namespace: the one namespace shown; by default the engine's, if it has one with a name. Otherwise all are shown,
            ``PERDURE_NAMESPACE`` or the one without a name at first.
        token: a secret of at least 16 characters that visitors log in with; programs send it as a bearer.
        auth: your own way to know who asks, instead of a token: given the request, it returns (or is a coroutine
            function that returns) a name, a ``Visitor``, or None for nobody.
        hosts: names, besides those of this machine, under which it is reached: ``["ops.example.com"]``. A request under
            any other name is refused, so that no web page can reach it under a name of its own.
        read_only: whether nothing can be changed from it.
        redact: what is left out of all that it shows, by ``fnmatch`` patterns of paths: ``["*password*", "card.number",
            "failure.text"]``. Then nothing can be downloaded that could not be looked through.
        codecs: what stored values go through, as of ``Engine``; by default the engine's, else what ``perdure.config``
            says. What went through others is not shown.
        workflows: workflows that can be started and sent signals by form, besides the engine's. None is executed.

    Raises:
        DefinitionError: an option is wrong, or others than this machine could reach it without saying who they are.
    """
    redaction = Redaction(redact)
    setup = settings(hosts=hosts, token=token, auth=auth, read_only=read_only, redaction=redaction)
    return _application(Reader(store, namespace, redaction, codecs, workflows), setup)


def _application(reader: Reader, setup: Settings) -> Starlette:
    live = Live(reader)
    doorman = Doorman(setup, SystemClock())
    shown: tuple[Page, ...] = (
        runs_page(reader.lately), run_page(reader.logs), LOG, start_page(reader), QUEUES, SCHEDULES, SCHEDULE,
        workers_page(reader), trouble_page(reader), job_page(reader),
    )  # fmt: skip
    told = description(shown, actions.ACTIONS, CHANGES)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await reader.jobs.close()
            await live.close()
            reader.close()

    async def home(request: Request) -> Response:
        return RedirectResponse(Links(request.scope.get("root_path", ""))("/runs"), status_code=307)

    async def api(_: Request) -> Response:
        return JSONResponse(told)

    async def fail(request: Request, error: Exception) -> Response:
        problem = problem_of(error, brief=bool(setup.redaction))
        if problem.status >= 500:  # noqa: PLR2004 - as HTTP has it
            is_fault = problem.code == "internal"
            line = lines.DASHBOARD_FAULT if is_fault else lines.DASHBOARD_AWAY
            say(line, error=error, fault=is_fault, method=request.method, place=request.scope["path"])
        return refuse(request, problem)

    application = Starlette(
        routes=[
            Route("/", home, methods=["GET"]),
            Route("/static/{name}", assets.serve, methods=["GET"]),
            Route("/login", partial(_login, doorman=doorman), methods=["GET", "POST"]),
            Route("/logout", _logout, methods=["POST"]),
            Route("/theme", _theme, methods=["POST"]),
            Route("/live", live.stream, methods=["GET"]),
            Route("/api/openapi.json", api, methods=["GET"]),
            *(route for page in shown for route in pages.routes_of(page, reader)),
            Route("/artifacts/{run_id:path}", partial(download, reader=reader), methods=["GET"]),
            Route("/api/artifacts/{run_id:path}", partial(download, reader=reader), methods=["GET"]),
            *(route for action in actions.ACTIONS for route in actions.routes_of(action, reader)),
            *(route for change in CHANGES for route in changes.routes_of(change, reader)),
        ],
        middleware=[Middleware(Spaces, reader=reader), Middleware(Guard, settings=setup, doorman=doorman, fail=fail)],
        exception_handlers={Problem: fail, 404: fail, 405: fail},
        lifespan=lifespan,
    )
    application.router.redirect_slashes = False
    application.state.site = {
        "store": reader.name,
        "read_only": setup.read_only,
        "has_login": doorman.has_login,
        "redacted": bool(setup.redaction),
    }
    application.state.live, application.state.reader, application.state.description = live, reader, told
    return application


async def _login(request: Request, doorman: Doorman) -> Response:
    """Ask for the token, and give a session for it."""
    if not doorman.has_login:
        raise Problem(404, "not_found", "nobody logs in here", "")
    came = _local(request.query_params.get("next", ""))
    if request.method == "GET":
        return render(request, "login.html", {"next": came, "failed": False})
    form = request.state.form
    session = doorman.log_in(str(form.get("token", "")), str(form.get("name", ""))) if form is not None else None
    if session is None:
        say(lines.DASHBOARD_REFUSED)
        return render(request, "login.html", {"next": came, "failed": True}, status=403)
    root = request.scope.get("root_path", "")
    response = RedirectResponse(root + came, status_code=303)
    response.headers.append("set-cookie", cookie(request.scope, SESSION_COOKIE, session, age=SESSION_AGE))
    return response


async def _logout(request: Request) -> Response:
    response = RedirectResponse(f"{request.scope.get('root_path', '')}/login", status_code=303)
    response.headers.append("set-cookie", cookie(request.scope, SESSION_COOKIE, "", age=0))
    return response


async def _theme(request: Request) -> Response:
    """Keep which colours the visitor wants, and go back."""
    form = request.state.form
    wanted = str(form.get("to", "")) if form is not None else ""
    back = _local(str(form.get("back", ""))) if form is not None else "/"
    response = RedirectResponse(request.scope.get("root_path", "") + back, status_code=303)
    if wanted in THEMES:
        response.headers.append("set-cookie", cookie(request.scope, "perdure_theme", wanted, age=_YEAR))
    return response


def _local(path: str) -> str:
    """Return a path within the dashboard; the beginning if it would lead elsewhere.

    >>> _local("/runs?status=failed"), _local("//evil.example"), _local("https://evil.example")
    ('/runs?status=failed', '/runs', '/runs')
    """
    try:
        parts = urlsplit(path)
    except ValueError:
        return "/runs"
    good = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if good and not parts.netloc and not parts.scheme and path.isascii() else "/runs"


__all__ = ["dashboard"]
