"""Pages from templates: everything that is put into one is text, and stays text."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from perdure import words
from perdure.clock import SystemClock
from perdure.gantt import micros
from perdure.web.assets import versioned
from perdure.web.showing import event_line, key_parts, pieces
from perdure.web.spaces import HOME, PREFIX, namespace_of, segment_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from perdure.web.reading import Reader
    from perdure.web.settings import Visitor


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("perdure.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    functions: dict[str, Any] = {"pieces": pieces, "event_line": event_line, "key_parts": key_parts}
    environment.globals.update(functions)
    filters: dict[str, Any] = {
        "ago": ago,
        "span": span,
        "clock": clock,
        "moment": moment,
        "stamp": stamp,
        "number": "{:,}".format,
        "compact": words.compact,
        "plural": words.count,
    }
    environment.filters.update(filters)
    return environment


def render(
    request: Request,
    template: str,
    data: Mapping[str, Any],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a page.

    Args:
        request: what asked for it.
        template: its template.
        data: what is shown, as the JSON twin of the page has it.
        status: of HTTP.
        headers: more of them.
    """
    state = request.state
    text = _environment().get_template(template).render(
        data=data,
        site={**request.app.state.site, "namespace": namespace_of(request), "spaces": _spaces(request)},
        visitor=getattr(state, "visitor", None),
        csrf=state.csrf,
        may_change=_may_change(request),
        theme=state.theme if state.theme in {"light", "dark"} else "auto",
        link=Links(request.scope.get("root_path", "")),
        here=request.scope["path"].removeprefix(request.scope.get("root_path", "")),
        query=dict(request.query_params),
        flash=_flash(request),
        now=words_now(),
    )  # fmt: skip
    return HTMLResponse(text, status, headers=headers)


def _may_change(request: Request) -> bool:
    visitor: Visitor | None = getattr(request.state, "visitor", None)
    return visitor is not None and not visitor.read_only and not request.app.state.site["read_only"]


def _spaces(request: Request) -> list[dict[str, Any]]:
    """Return the namespaces that one can change to, this one among them; none if there is no other."""
    reader: Reader = request.app.state.reader
    here, home = namespace_of(request), request.scope["state"][HOME]
    names = sorted({*reader.namespaces, reader.namespace, here})
    if reader.is_fixed or len(names) == 1:
        return []
    return [
        {
            "name": name,
            "is_here": name == here,
            "link": f"{home}/runs" if name == reader.namespace else f"{home}{PREFIX}{segment_of(name)}/runs",
        }
        for name in names
    ]


def words_now() -> int:
    """Return the instant by which pages say how long ago something was (µs)."""
    return SystemClock().now()


class Links:
    """Makes addresses within the dashboard, wherever it is mounted."""

    def __init__(self, root: str) -> None:
        self._root = root

    def __call__(self, path: str, about: str | None = None, /, **query: Any) -> str:
        """Return an address.

        Args:
            path: of the page: ``/runs``.
            about: what the page is about, the last part of its path.
            query: parameters; those that are None or empty are left out.
        """
        at = self._root + path + ("" if about is None else f"/{quote(about, safe='')}")
        pairs = {name: value for name, value in query.items() if value not in (None, "", ())}
        return f"{at}?{urlencode(pairs, doseq=True)}" if pairs else at

    def static(self, name: str) -> str:
        """Return the address of a static file; another one whenever the file is another."""
        return f"{self._root}/static/{versioned(name)}"


FLASHES = {
    "cancelled": "The run is cancelled.",
    "cancel-asked": "The run is asked to cancel; it cleans up and ends.",
    "paused": "The run is paused.",
    "pause-asked": "The run is asked to pause; it rests when its steps have ended.",
    "resumed": "The run goes on; the next worker with its code takes it.",
    "forked": "This is the fork; the next worker with its code takes it.",
    "signalled": "The signal is sent.",
    "job-stopped": "It is asked to stop; what was done stays.",
    "queue-paused": "The queue is paused; runs under way go on.",
    "queue-resumed": "Workers claim from the queue again.",
    "schedule-paused": "The schedule fires no more until it is resumed.",
    "schedule-resumed": "The schedule goes on with what comes next.",
    "schedule-removed": "The schedule is removed; its runs stay.",
    "triggered": "This run was created by hand; the next worker with its code takes it.",
    "started": "The run is created; the next worker with its code takes it.",
    "found": "This run was there already, with the same input.",
    "signalled-before": "That signal had been sent before, under the same idempotency key.",
}
"""What is said once something was done; the address names one of them, so that nobody else can put words there."""


def _flash(request: Request) -> str:
    return FLASHES.get(request.query_params.get("done", ""), "")


# -- instants and durations, as ``perdure.describe`` writes them


def ago(instant: str | None, now: int) -> str:
    """Return how long ago an instant was, or in how long it will be."""
    return "" if instant is None else words.ago(micros(instant), now)


def span(seconds: float | None) -> str:
    """Return a duration in seconds for people."""
    return "" if seconds is None else words.span(round(seconds * 1e6))


def clock(instant: str | None, now: int | None = None) -> str:
    """Return an instant of UTC, with its date unless that is today's."""
    return "" if instant is None else words.clock(micros(instant), now, UTC)


def moment(instant: str) -> str:
    """Return an instant of UTC in full."""
    return datetime.fromisoformat(instant).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def stamp(instant: str) -> str:
    """Return an instant of UTC to the second."""
    return instant[:19].replace("T", " ")


__all__ = ["FLASHES", "Links", "render", "words_now"]
