"""What went wrong, as a page for people and as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from perdure.errors import (
    DefinitionError,
    DriftError,
    IntegrityError,
    InvalidValue,
    NotSerializable,
    PerdureError,
    RunConflict,
    RunNotFound,
    RunPurged,
    ScheduleNotFound,
    StepNotFound,
    StoreError,
    Undecodable,
    UnknownWorkflow,
    WrongState,
)

if TYPE_CHECKING:
    from starlette.requests import Request

STATUSES: Final[tuple[tuple[type[PerdureError], int], ...]] = (
    (StoreError, 503),
    (RunPurged, 410),
    (RunNotFound, 404),
    (StepNotFound, 404),
    (ScheduleNotFound, 404),
    (UnknownWorkflow, 404),
    (RunConflict, 409),
    (WrongState, 409),
    (DriftError, 409),
    (IntegrityError, 409),
    (DefinitionError, 422),
    (InvalidValue, 422),
    (NotSerializable, 422),
    (Undecodable, 422),
)
"""HTTP status by kind of error, the first that fits."""

TITLES: Final = {
    400: "That could not be read",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not found",
    405: "Not like that",
    409: "Not in this state",
    410: "Gone",
    413: "Too large",
    415: "Not understood",
    421: "Not under this name",
    422: "That does not fit",
    500: "A fault in Perdure",
    503: "The store cannot be reached",
}


class Problem(Exception):
    """A request that is not answered as it asks.

    Attributes:
        status: of HTTP.
        code: stable name of the kind of problem, as of ``PerdureError``.
        message: what is wrong.
        advice: what to do about it.
        headers: what is sent along.
        instead: what people are answered instead, if not with a page that says so.
    """

    def __init__(self, status: int, code: str, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.advice = advice
        self.headers: dict[str, str] = {}
        self.instead: Response | None = None

    def told(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"error": {"code": self.code, "message": self.message, "advice": self.advice}}


def problem_of(error: Exception, *, brief: bool = False) -> Problem:
    """Return what an exception is to whoever asked.

    Args:
        error: the exception.
        brief: leave out what may hold values: all but the first line.
    """
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        if error.status_code == 404:  # noqa: PLR2004 - as HTTP has it
            return Problem(404, "not_found", "there is no such page", "begin at the list of runs")
        problem = Problem(error.status_code, "http", error.detail)
        problem.headers.update(error.headers or {})
        return problem
    if isinstance(error, PerdureError):
        status = next((status for kind, status in STATUSES if isinstance(error, kind)), 409)
        problem = Problem(status, error.code, error.headline if brief else error.message, error.advice)
        if status == 503:  # noqa: PLR2004 - as HTTP has it
            problem.headers["retry-after"] = "2"
        return problem
    return Problem(
        500,
        "internal",
        f"{type(error).__name__} in the dashboard",
        "the log of its process says where; please report it",
    )


def wants_html(request: Request) -> bool:
    """Whether people look at the answer."""
    path: str = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return not path.startswith("/api/")


def refuse(request: Request, problem: Problem) -> Response:
    """Answer with a problem: to programs as JSON, to people as a page."""
    if problem.instead is not None and wants_html(request):
        return problem.instead
    if not wants_html(request):
        return JSONResponse(problem.told(), problem.status, headers=problem.headers)
    from perdure.web.rendering import render

    told = {
        **problem.told()["error"],
        "status": problem.status,
        "title": TITLES.get(problem.status, "That did not work"),
    }
    return render(request, "problem.html", told, status=problem.status, headers=problem.headers)


__all__ = ["STATUSES", "TITLES", "Problem", "problem_of", "refuse", "wants_html"]
