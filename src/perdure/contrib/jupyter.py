"""Runs in notebooks: where one is, why, and what happened when, as a drawing."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final, overload

from perdure import describe, gantt, words
from perdure.config import setting
from perdure.model.history import fold
from perdure.model.redaction import Redaction
from perdure.model.timeline import Timeline
from perdure.shown import redacting
from perdure.sync import Handle as SyncHandle

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Iterable, Mapping

    from perdure.diagnosis import Explanation
    from perdure.handle import Handle
    from perdure.model.records import Event, RunRow

STEPS: Final = 100
"""Steps, waits and children that are drawn, the latest."""
WIDTH: Final = 960
"""Units of the drawing's width; it is drawn as many pixels wide at most."""
_LEFT, _RIGHT, _ROW = 290, 870, 22
_LABEL: Final = 42

# Colours that are seen on a light ground and on a dark one: which of them a notebook has, nobody says in one way.
_DONE, _OPEN, _BAD, _BACKOFF, _SIGNAL = "#3f9b68", "#4a86ee", "#d9584e", "#c9953f", "#977ac9"
_FILLS: Final[Mapping[str, str]] = {
    "open": _OPEN, "running": _OPEN, "failed": _BAD, "blocked": _BAD, "backoff": _BACKOFF, "retrying": _BACKOFF,
    "signal": _SIGNAL, "waiting": _SIGNAL,
}  # fmt: skip
_FAINT: Final = frozenset({"timer", "sleeping", "pending", "paused", "cancelled", "interrupted", "released"})
_MARKS: Final[Mapping[str, str]] = {"completed": _DONE, "running": _OPEN, "failed": _BAD, "blocked": _BAD}


class Shown:
    """A run as it was at one moment, for a notebook to show."""

    def __init__(self, html: str, text: str) -> None:
        self._html, self._text = html, text

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        """Return it as HTML, which needs nothing from elsewhere and in which every value is text."""
        return self._html


@overload
def show(
    handle: Handle[Any], *, steps: int = STEPS, redact: Collection[str] | None = None
) -> Coroutine[Any, Any, Shown]: ...
@overload
def show(handle: SyncHandle[Any], *, steps: int = STEPS, redact: Collection[str] | None = None) -> Shown: ...
def show(
    handle: Handle[Any] | SyncHandle[Any], *, steps: int = STEPS, redact: Collection[str] | None = None
) -> Coroutine[Any, Any, Shown] | Shown:
    """Return a run for a notebook to show: its status, why it is where it is, and a timeline of its steps.

    Write ``await show(handle)`` as a cell's last line; with a handle of ``perdure.sync``, ``show(handle)``.

    Args:
        handle: the run.
        steps: how many of its steps, waits and children are drawn, the latest.
        redact: paths of values that are not shown; by default what the setting ``redact`` says.

    Raises:
        RunNotFound: no such run.
        DefinitionError: ``redact`` has something that is no pattern.
    """
    hidden = Redaction(setting("redact", redact) or ())
    if isinstance(handle, SyncHandle):
        return _shown(handle.row(), list(handle.events()), handle.why(), steps, hidden)
    return _read(handle, steps, hidden)


async def _read(handle: Handle[Any], steps: int, hidden: Redaction) -> Shown:
    row = await handle.row()
    events = [event async for event in handle.events()]
    return _shown(row, events, await handle.why(), steps, hidden)


def _shown(row: RunRow, events: list[Event], why: Explanation, steps: int, hidden: Redaction) -> Shown:
    line = Timeline()
    line.feed(events)
    with redacting(hidden):
        run = describe.run(row, events, view=fold(events))
        told = describe.explanation(why)
        drawn = describe.timeline(line, {one["key"] for one in run["steps"]})
    drawn["lanes"] = drawn["lanes"][-steps:] if steps > 0 else []
    shapes = gantt.draw(drawn, told["now"])
    return Shown(_storable(_page(run, told, drawn, shapes)), f"<Run {run['run_id']!r}: {run['status']}>")


def _storable(text: str) -> str:
    """Return a text as UTF-8 can hold it; values may have lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


def _page(run: Mapping[str, Any], why: Mapping[str, Any], drawn: Mapping[str, Any], shapes: Mapping[str, Any]) -> str:
    status = run["status"]
    said = [f"<b>{escape(run['run_id'])}</b> {_status(status)} {escape(run['workflow'])}, {escape(shapes['took'])}"]
    for cause in why["causes"]:
        said.append(f"<i>{escape(cause['found'])}</i>")
        if cause["advice"]:
            said.append(escape(cause["advice"]))
    said += [
        f"{name}: <code>{escape(words.compact(run[name]))}</code>" for name in ("input", "result") if _has(run, name)
    ]
    if run["failure"] is not None:
        said.append(f"failure: <code>{escape(words.compact(run['failure']['line']))}</code>")
    return f'<div style="line-height:1.5">{"<br>".join(said)}</div>{_drawing(run, drawn, shapes)}'


def _has(run: Mapping[str, Any], name: str) -> bool:
    return name == "input" or run["status"] == "completed"


def _status(status: str) -> str:
    return f'<span style="color:{_MARKS.get(status, _SIGNAL)}">{escape(status)}</span>'


# -- the drawing ----------------------------------------------------------------------------------


def _drawing(run: Mapping[str, Any], drawn: Mapping[str, Any], shapes: Mapping[str, Any]) -> str:
    steps = {one["key"]: one for one in run["steps"]}
    lanes = drawn["lanes"]
    height = _ROW * (len(lanes) + 2)
    parts = [
        f'<rect x="{_x(gap["x"])}" y="0" width="{_wide(gap["w"])}" height="{height}" opacity="0.07"/>'
        f'<text x="{_x(gap["middle"])}" y="15" text-anchor="middle" opacity="0.6">{escape(gap["text"])}</text>'
        for gap in shapes["breaks"]
    ]
    parts += [
        f'<text x="{_x(tick["x"])}" y="15" opacity="0.6">{escape(tick["text"])}</text>' for tick in shapes["ticks"]
    ]
    parts.append(_row(1, "the run", shapes["run"], shapes["took"], 6))
    parts += [
        f'<line x1="{_x(mark["x"])}" x2="{_x(mark["x"])}" y1="{_ROW + 2}" y2="{2 * _ROW - 2}" stroke="{_BAD}"'
        f' stroke-width="2"><title>{escape(mark["text"])}</title></line>'
        for mark in shapes["marks"]
    ]
    for number, lane in enumerate(lanes, 2):
        step = steps.get(lane["key"], {})
        took = "" if step.get("took") is None else words.span(round(step["took"] * 1e6))
        parts.append(_row(number, lane["key"], shapes["lanes"][lane["key"]], took, 12))
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="100%" style="max-width:{WIDTH}px" role="img"'
        f' aria-label="{escape(_told(lanes, shapes))}" font-size="12" font-family="ui-monospace,Menlo,monospace"'
        f' fill="currentColor">{"".join(parts)}</svg>'
    )


def _told(lanes: Iterable[Mapping[str, Any]], shapes: Mapping[str, Any]) -> str:
    """Return the drawing in words, for who cannot see it."""
    return "; ".join(
        f"{lane['key']}: {', '.join(bar['text'] for bar in shapes['lanes'][lane['key']])}" for lane in lanes
    )


def _row(number: int, label: str, bars: Iterable[Mapping[str, str]], took: str, thick: int) -> str:
    top = number * _ROW
    short = label if len(label) <= _LABEL else f"…{label[1 - _LABEL :]}"
    said = [f'<text x="0" y="{top + 15}">{escape(short)}<title>{escape(label)}</title></text>']
    said += [
        f'<rect x="{_x(bar["x"])}" y="{top + (_ROW - thick) // 2}" width="{_wide(bar["w"])}" height="{thick}" rx="2"'
        f" {_fill(bar['class'])}><title>{escape(bar['text'])}</title></rect>"
        for bar in bars
    ]
    said.append(f'<text x="{WIDTH}" y="{top + 15}" text-anchor="end" opacity="0.7">{escape(took)}</text>')
    return "".join(said)


def _fill(kinds: str) -> str:
    """Return how a bar is drawn that is of such kinds, an outcome last."""
    *_, kind, outcome = kinds.split()
    if outcome in _FAINT or (kind in _FAINT and outcome != "failed"):
        return 'fill="currentColor" opacity="0.25"'
    fill = _FILLS["failed"] if outcome == "failed" else _FILLS.get(kind) or _FILLS.get(outcome, _DONE)
    return f'fill="{fill}"'


def _x(percent: str) -> str:
    return f"{_LEFT + (_RIGHT - _LEFT) * float(percent) / 100:.1f}"


def _wide(percent: str) -> str:
    return f"{max((_RIGHT - _LEFT) * float(percent) / 100, 1.5):.1f}"


__all__ = ["STEPS", "WIDTH", "Shown", "show"]
