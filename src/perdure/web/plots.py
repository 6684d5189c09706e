"""Small drawings of what became of runs over time: how many ended in each bucket, and how long they took."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perdure import words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WIDTH: Final = 600
HEIGHT: Final = 48
OUTCOMES: Final = ("completed", "failed", "cancelled")


def draw(buckets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the shapes of two plots over the same buckets, in units of ``WIDTH`` by ``HEIGHT``.

    Args:
        buckets: as ``describe.traffic`` returns them.
    """
    most = max((sum(one[outcome] for outcome in OUTCOMES) for one in buckets), default=0)
    slowest = max((one["latency"]["p95"] for one in buckets if one["latency"]), default=0.0)
    fastest = min((one["latency"]["p50"] for one in buckets if one["latency"]), default=0.0)
    height = _logarithmic(max(fastest, 1e-4) / 2, max(slowest, 1e-3) * 1.2)
    ended = [sum(one[outcome] for one in buckets) for outcome in OUTCOMES]
    return {
        "bars": _bars(buckets, most),
        "p50": _line(buckets, "p50", height),
        "p95": _line(buckets, "p95", height),
        "most": most,
        "slowest": words.span(round(slowest * 1e6)) if slowest else "",
        "totals": dict(zip(OUTCOMES, ended, strict=True)),
        "created": sum(one["created"] for one in buckets),
        "last": next((_latency(one) for one in reversed(buckets) if one["latency"]), None),
        "width": WIDTH,
        "height": HEIGHT,
    }


def _latency(bucket: Mapping[str, Any]) -> dict[str, str]:
    return {name: words.span(round(bucket["latency"][name] * 1e6)) for name in ("p50", "p95", "max")}


def _bars(buckets: Sequence[Mapping[str, Any]], most: int) -> list[dict[str, Any]]:
    width = WIDTH / max(len(buckets), 1)
    bars = []
    for at, bucket in enumerate(buckets):
        top = float(HEIGHT)
        parts = []
        for outcome in OUTCOMES:
            if bucket[outcome]:
                tall = max(HEIGHT * bucket[outcome] / most, 1.0)
                top -= tall
                parts.append({"class": outcome, "y": f"{max(top, 0):.2f}", "h": f"{tall:.2f}"})
        told = ", ".join(f"{bucket[outcome]} {outcome}" for outcome in OUTCOMES if bucket[outcome]) or "nothing ended"
        text = f"{bucket['since'][11:16]} UTC: {told}"
        if bucket["latency"]:
            text += f"; half within {_latency(bucket)['p50']}, 95 % within {_latency(bucket)['p95']}"
        bars.append(
            {"x": f"{at * width:.2f}", "w": f"{width * 0.78:.2f}", "step": f"{width:.2f}", "parts": parts, "text": text}
        )
    return bars


def _logarithmic(low: float, high: float) -> Callable[[float], float]:
    """Return what gives the height of a number of seconds: latencies differ by orders of magnitude."""
    span = math.log(high / low)
    return lambda value: HEIGHT * (1 - min(max(math.log(max(value, low) / low) / span, 0.0), 1.0))


def _line(buckets: Sequence[Mapping[str, Any]], name: str, height: Callable[[float], float]) -> list[str]:
    """Return lines through what is known, each as the points of a polyline; a bucket without runs parts them."""
    width = WIDTH / max(len(buckets), 1)
    lines: list[list[str]] = [[]]
    for at, bucket in enumerate(buckets):
        if bucket["latency"] is None:
            lines.append([])
            continue
        y = height(bucket["latency"][name])
        lines[-1] += [f"{(at + part) * width:.2f},{y:.2f}" for part in (0.1, 0.9)]
    return [" ".join(points) for points in lines if points]


__all__ = ["draw"]
