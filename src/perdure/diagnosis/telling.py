"""How durations and numbers are said in findings."""

from __future__ import annotations


def span(micros: int) -> str:
    """Return a duration in one unit: ``3 min``."""
    seconds = micros / 1e6
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004


def count(number: int, noun: str, bound: int | None = None) -> str:
    """Return a number with its noun; ``1,000+`` where it was counted up to a bound."""
    more = "+" if bound is not None and number >= bound else ""
    return f"{number:,}{more} {noun}{'' if number == 1 else 's'}"


__all__ = ["count", "span"]
