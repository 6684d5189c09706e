"""An engine inside of a Starlette or FastAPI application: opened and closed with it, found in its requests."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from perdure import errors
from perdure.engine import Engine
from perdure.errors import DefinitionError, PerdureError
from perdure.extras import extra

with extra("starlette"):
    from starlette.requests import HTTPConnection, Request  # noqa: TC002 - FastAPI reads dependencies' annotations
    from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from starlette.applications import Starlette

    from perdure.model.durations import Duration

STATUSES: Final[Mapping[type[PerdureError], HTTPStatus]] = {
    errors.RunNotFound: HTTPStatus.NOT_FOUND,
    errors.RunPurged: HTTPStatus.GONE,
    errors.ScheduleNotFound: HTTPStatus.NOT_FOUND,
    errors.StepNotFound: HTTPStatus.NOT_FOUND,
    errors.RunConflict: HTTPStatus.CONFLICT,
    errors.RunCancelled: HTTPStatus.CONFLICT,
    errors.RunBlocked: HTTPStatus.CONFLICT,
    errors.WrongState: HTTPStatus.CONFLICT,
    errors.InvalidValue: HTTPStatus(422),  # whose name has changed
    errors.EngineNotOpen: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreUnreachable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreFull: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreReadOnly: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""Which status a response has for an error of Perdure's or of a class derived from it. What is not here is a fault."""

RETRY_AFTER: Final = 1
"""Seconds after which whoever was answered 503 may ask again."""

if TYPE_CHECKING:
    Lifespan = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]]
    """What an application takes as its ``lifespan``."""


def lifespan(
    engine: Engine,
    *,
    worker: bool = False,
    drain: Duration | None = None,
    grace: Duration | None = None,
    inside: Lifespan | None = None,
) -> Callable[[Any], AbstractAsyncContextManager[dict[str, Any]]]:
    """Return a lifespan that has the engine open for as long as the application serves.

    Requests find it as ``request.state.perdure``, or by ``Depends(engine_of)``.

    Args:
        engine: what to open; made once, at import if you like, since it opens nothing by itself.
        worker: execute runs in this process too; else it only enqueues, signals and reads, and runs are executed by
            ``perdure worker``.
        drain: how long steps may finish when the application shuts down; as for ``Engine.stop``.
        grace: how long they may clean up after that; as for ``Engine.stop``.
        inside: a lifespan of yours, entered while the engine is open; what it yields is in ``request.state`` as well.

    Raises:
        DefinitionError: ``engine`` is no ``perdure.Engine``.
    """
    if not isinstance(engine, Engine):
        raise DefinitionError(
            f"a {type(engine).__name__} was given for an engine", advice="write lifespan(perdure.Engine(…))"
        )

    @asynccontextmanager
    async def living(app: Any) -> AsyncGenerator[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            if worker:
                await engine.start()
                stack.push_async_callback(engine.stop, drain, grace)
            else:
                await stack.enter_async_context(engine.client())
            more = None if inside is None else await stack.enter_async_context(inside(app))
            yield {**(more or {}), "perdure": engine}

    return living


def engine_of(connection: HTTPConnection) -> Engine:
    """Return the engine that the lifespan has opened; in FastAPI ``engine: Annotated[Engine, Depends(engine_of)]``.

    Raises:
        EngineNotOpen: the application has no such lifespan, or was not started with it.
    """
    engine = getattr(connection.state, "perdure", None)
    if not isinstance(engine, Engine):
        raise errors.EngineNotOpen(
            "the application was started without Perdure's lifespan",
            advice="give it lifespan=perdure.contrib.starlette.lifespan(engine)",
        )
    return engine


def problem(error: PerdureError) -> Response | None:
    """Return the problem response (RFC 9457) for an error of Perdure's; None for one that is a fault of the program.

    It has ``status``, ``title``, ``detail``, ``code`` (see the reference of errors), ``advice`` and, if the error is
    about a run, ``run_id``. Of what is no caller's business, a store that is busy or away, it tells the code only.
    """
    status = next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), None)
    if status is None:
        return None
    body: dict[str, object] = {"type": "about:blank", "title": status.phrase, "status": status, "code": error.code}
    headers = {}
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_AFTER)
    else:
        # The lines below the first one may show what is recorded.
        body |= {"detail": error.headline, "advice": error.advice}
        if isinstance(run_id := error.fields.get("run_id"), str):
            body["run_id"] = run_id
    return JSONResponse(body, status, headers, media_type="application/problem+json")


async def on_error(request: Request, error: Exception) -> Response:
    """Answer with ``problem``, or raise the error again; ``handle_errors`` makes it an application's handler."""
    del request
    answer = problem(error) if isinstance(error, PerdureError) else None
    if answer is None:
        raise error
    return answer


def handle_errors(app: Starlette) -> None:
    """Have an application answer errors of Perdure's with problem responses; before it serves its first request.

    What a workflow itself has raised is no error of Perdure's, and is left to the application; so are faults of the
    program, such as ``DefinitionError``: they are answered 500, and logged, as any exception is.
    """
    app.add_exception_handler(PerdureError, on_error)


__all__ = ["RETRY_AFTER", "STATUSES", "engine_of", "handle_errors", "lifespan", "on_error", "problem"]
