"""Timelines as drawings: where spans of time are on a line, in per cent of its width.

Time in which nothing was executed may be a thousand times as long as the rest (a run that slept for two weeks), so long
pauses are drawn short, with a break in the line and their true length beside it.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perdure import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LONG_PAUSE: Final = 0.4
"""Of the time in which something was executed: a pause that is longer is drawn short."""
SHORT: Final = 0.4
"""Of the same: no longer than that, and all such pauses together no longer than twice that."""
SHORTEST: Final = 0.25
"""Per cent of the width that a span has at least, so that it is seen."""
TICKS: Final = 6
_ACTIVE: Final = frozenset({"attempt", "running"})
_STEPS: Final = (1, 2, 5, 10)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Piece(NamedTuple):
    """A stretch of time that is drawn evenly: its beginning and end in µs, and on the line from 0 to 1."""

    start: int
    end: int
    left: float
    right: float
    is_break: bool


class Scale:
    """Where instants are on the line."""

    def __init__(self, active: Iterable[tuple[int, int]], start: int, end: int) -> None:
        end = max(end, start + 1)
        bounds = _stretches(active, start, end)
        busy = sum(to - at for at, to, is_busy in bounds if is_busy)
        long = busy * LONG_PAUSE or float(end - start)
        pauses = sum(not is_busy and to - at > long for at, to, is_busy in bounds)
        short = max(busy * SHORT * min(1, 2 / max(pauses, 1)), 1)
        lengths = [to - at if is_busy or to - at <= long else short for at, to, is_busy in bounds]
        whole = sum(lengths)
        self.pieces: list[Piece] = []
        at = 0.0
        for (begin, to, _), length in zip(bounds, lengths, strict=True):
            right = at + length / whole
            self.pieces.append(Piece(begin, to, at, right, to - begin > length))
            at = right
        self._starts = [piece.start for piece in self.pieces]

    def at(self, instant: int) -> float:
        """Return where an instant is, in per cent."""
        piece = self.pieces[max(0, bisect_right(self._starts, instant) - 1)]
        share = (instant - piece.start) / (piece.end - piece.start)
        return 100 * (piece.left + (piece.right - piece.left) * min(max(share, 0.0), 1.0))


def _stretches(active: Iterable[tuple[int, int]], start: int, end: int) -> list[tuple[int, int, bool]]:
    """Cut a time into what is active and what is not, in order, without gaps."""
    merged: list[list[int]] = []
    for begin, to in sorted((max(begin, start), min(to, end)) for begin, to in active):
        if begin >= to:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], to)
        else:
            merged.append([begin, to])
    found: list[tuple[int, int, bool]] = []
    at = start
    for begin, to in merged:
        if begin > at:
            found.append((at, begin, False))
        found.append((begin, to, True))
        at = to
    if at < end:
        found.append((at, end, False))
    return found


def draw(timeline: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the shapes of a timeline.

    Args:
        timeline: as ``describe.timeline`` returns it.
        now: until when what has not ended goes on.
    """
    today = micros(now)
    lanes = timeline["lanes"]
    spans = [span for lane in lanes for span in lane["spans"]]
    run = timeline["run"]
    first = min((micros(span["start"]) for span in (spans or run)), default=today)
    if run and (not lanes or micros(run[0]["start"]) <= first):
        first = micros(run[0]["start"])
    ends = [micros(span["end"]) if span["end"] else today for span in [*spans, *run]]
    last = min(max(ends, default=today), max(today, first + 1))
    scale = Scale(
        [
            (micros(span["start"]), micros(span["end"]) if span["end"] else today)
            for span in [*spans, *run]
            if span["kind"] in _ACTIVE
        ],
        first,
        last,
    )
    return {
        "run": [bar for span in run if (bar := _bar(span, scale, today)) is not None],
        "lanes": {lane["key"]: [bar for span in lane["spans"] if (bar := _bar(span, scale, today))] for lane in lanes},
        "ticks": _ticks(scale, first, last),
        "breaks": [
            {"x": _percent(100 * piece.left), "w": _percent(100 * (piece.right - piece.left)),
             "middle": _percent(50 * (piece.left + piece.right)), "text": words.span(piece.end - piece.start)}
            for piece in scale.pieces
            if piece.is_break
        ],
        "marks": [
            {"x": _percent(scale.at(micros(mark["at"]))), "text": mark["kind"].replace("_", " ")}
            for mark in timeline["marks"]
            if micros(mark["at"]) >= first
        ],
        "took": words.span(max(last - first, 0)),
    }  # fmt: skip


def micros(instant: str) -> int:
    """Return an instant of ``describe`` in µs."""
    at = datetime.fromisoformat(instant)
    return int((at - _EPOCH).total_seconds()) * 1_000_000 + at.microsecond


def _bar(span: Mapping[str, Any], scale: Scale, today: int) -> dict[str, str] | None:
    start, end = micros(span["start"]), micros(span["end"]) if span["end"] else today
    left, right = scale.at(start), scale.at(min(end, max(today, start)))
    width = max(right - left, SHORTEST)
    if end < scale.pieces[0].start:
        return None
    kind, outcome = span["kind"], span["outcome"]
    what = f"attempt {span['attempt']}" if kind == "attempt" else kind.replace("_", " ")
    ended = outcome or ("goes on" if span["end"] is None else "")
    if kind == "backoff":
        ended = "until the next attempt"
    text = (
        f"{what}, {ended}, {words.span(max(end - start, 0))}" if ended else f"{what}, {words.span(max(end - start, 0))}"
    )
    if span["pid"]:
        text += f", pid {span['pid']}"
    return {
        "x": _percent(min(left, 100 - width)),
        "w": _percent(width),
        "class": f"{kind} {outcome or ('open' if span['end'] is None else 'done')}",
        "text": text,
    }


def _ticks(scale: Scale, first: int, last: int) -> list[dict[str, str]]:
    """Return where on the line how much time has passed; none within a break, none on top of another."""
    shown = sum(piece.end - piece.start for piece in scale.pieces if not piece.is_break) or last - first
    step = _round_step(shown / TICKS)
    found: list[dict[str, str]] = [{"x": "0", "text": "0"}]
    taken = [0.0, *(50 * (piece.left + piece.right) for piece in scale.pieces if piece.is_break)]
    for piece in scale.pieces:
        if piece.is_break:
            continue
        count = 0
        at = first + -(-(piece.start - first) // step) * step
        while at <= piece.end and count < 2 * TICKS:
            x = scale.at(at)
            if at > first and all(abs(x - other) > 9 for other in taken) and x < 97:  # noqa: PLR2004 - room for the text
                found.append({"x": _percent(x), "text": words.span(at - first)})
                taken.append(x)
            at += step
            count += 1
    return found


def _round_step(micros: float) -> int:
    """Return a round number of µs near what is given: 1, 2 or 5 times a power of ten."""
    size = 1
    while size * 10 <= micros:
        size *= 10
    return next((size * one for one in _STEPS if size * one >= micros), size * 10) or 1


def _percent(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


__all__ = ["Scale", "draw", "micros"]
