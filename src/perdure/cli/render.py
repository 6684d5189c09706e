"""What people see: aligned text, coloured on a terminal and plain in a pipe.

Lines are made of parts, each a text with a style by its meaning (good, bad, dim, …). Alignment and cutting are done
here, the same with colours and without; rich is loaded for the colours only, and only where there are any.
"""

from __future__ import annotations

import os
import shutil
import textwrap
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO

    from rich.console import Console

STYLES = {
    "": "",
    "strong": "bold",
    "dim": "bright_black",
    "good": "green",
    "bad": "red",
    "warn": "yellow",
    "busy": "cyan",
    "title": "bold cyan",
}

GAP = 2
"""Blanks between columns."""
LEAST = 8
"""No column is cut to less than this."""
READABLE = 100
"""Prose is no wider than this."""


class Part(NamedTuple):
    """A piece of a line."""

    text: str
    style: str = ""


Cell = str | Part


class Column(NamedTuple):
    """A column of a table. What is too wide for the terminal is cut in the ``flexible`` one."""

    title: str = ""
    right: bool = False
    flexible: bool = False


class Screen:
    """Where output goes.

    Args:
        stream: where to write.
        environ: NO_COLOR, FORCE_COLOR, TERM and COLUMNS are looked up here.
    """

    def __init__(self, stream: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        self.is_coloured = _coloured(terminal=self.is_terminal, environ=environ)
        columns = environ.get("COLUMNS", "")
        self.width = (
            shutil.get_terminal_size().columns if self.is_terminal else int(columns) if columns.isdigit() else None
        )
        self._console: Console | None = None

    def line(self, *cells: Cell, indent: int = 0) -> None:
        """Write one line; on a terminal it is cut at the edge."""
        parts = [Part(" " * indent), *map(_part, cells)]
        if self.width is not None:
            parts = cut(parts, self.width)
        self._write(parts)

    def text(self, text: str, *, style: str = "", indent: int = 0) -> None:
        """Write prose, wrapped at the edge of the terminal."""
        width = min(self.width or READABLE, READABLE)
        for paragraph in text.splitlines() or [""]:
            wrapped = textwrap.wrap(
                paragraph,
                max(width - indent, 20),
                break_long_words=False,
                break_on_hyphens=False,
                subsequent_indent=" " * (len(paragraph) - len(paragraph.lstrip())),
            )
            for line in wrapped or [""]:
                self._write([Part(" " * indent), Part(line, style)])

    def prose(self, mark: Cell, text: str, *, style: str = "", indent: int = 0) -> None:
        """Write prose after a mark, wrapped beside it."""
        width = min(self.width or READABLE, READABLE)
        mark = _part(mark)
        hang = indent + width_of(mark.text) + 1
        wrapped = textwrap.wrap(text, max(width - hang, 20), break_long_words=False, break_on_hyphens=False)
        for number, line in enumerate(wrapped or [""]):
            head = [Part(" " * indent), mark, Part(" ")] if number == 0 else [Part(" " * hang)]
            self._write([*head, _part(Part(line, style))])

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, indent: int = 0) -> None:
        """Write rows in aligned columns, under their titles if they have any."""
        lines = [[_part(cell) for cell in row] for row in rows]
        if any(column.title for column in columns):
            lines.insert(0, [Part(column.title, "dim") for column in columns])
        widths = [max((width_of(line[n].text) for line in lines), default=0) for n in range(len(columns))]
        self._shrink(columns, widths, indent)
        for line in lines:
            parts = [Part(" " * indent)]
            shown = [n for n in range(len(columns)) if widths[n]]
            last = max((n for n in shown if line[n].text), default=-1)
            for n in shown:
                if n > last:
                    break
                (cell,) = cut([line[n]], widths[n]) or [Part("")]
                fill = Part(" " * (widths[n] - width_of(cell.text)))
                parts += [fill, cell] if columns[n].right else [cell] if n == last else [cell, fill]
                if n != last:
                    parts.append(Part(" " * GAP))
            self._write(parts)

    def fields(self, pairs: Iterable[tuple[str, Cell]], *, indent: int = 0) -> None:
        """Write names and what they stand for."""
        self.table(
            [Column(), Column(flexible=True)], [(Part(name, "dim"), value) for name, value in pairs], indent=indent
        )

    def gap(self) -> None:
        """Write an empty line."""
        self._write([])

    def _shrink(self, columns: Sequence[Column], widths: list[int], indent: int) -> None:
        if self.width is None:
            return
        shown = [width for width in widths if width]
        over = indent + sum(shown) + GAP * (len(shown) - 1) - self.width
        flexible = [n for n, column in enumerate(columns) if column.flexible and widths[n] > LEAST]
        while over > 0 and flexible:
            # The widest gives way first, until it is as wide as the next.
            widest, *others = sorted(flexible, key=lambda n: -widths[n])
            least = max(LEAST, widths[others[0]] - 1 if others else 0)
            kept = max(widths[widest] - over, min(least, widths[widest] - 1))
            over -= widths[widest] - kept
            widths[widest] = kept
            flexible = [n for n in flexible if widths[n] > LEAST]

    def _write(self, parts: Sequence[Part]) -> None:
        if not self.is_coloured:
            self._stream.write("".join(part.text for part in parts).rstrip() + "\n")
        else:
            from rich.text import Text

            line = Text(no_wrap=True, end="")
            for part in parts:
                line.append(part.text, STYLES[part.style])
            line.rstrip()
            with self._coloured().capture() as capture:
                self._coloured().print(line, soft_wrap=True, end="")
            self._stream.write(capture.get() + "\n")
        self._stream.flush()

    def _coloured(self) -> Console:
        if self._console is None:
            from rich.console import Console

            self._console = Console(force_terminal=True, highlight=False, markup=False, emoji=False)
        return self._console


def _coloured(*, terminal: bool, environ: Mapping[str, str]) -> bool:
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return environ["FORCE_COLOR"] not in {"0", "false"}
    return terminal and environ.get("TERM") != "dumb"


def _part(cell: Cell) -> Part:
    text, style = (cell, "") if isinstance(cell, str) else cell
    return Part(printable(text), style)


def printable(text: str) -> str:
    """Return a text without what could move the cursor or colour the terminal: it may come from anywhere."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def width_of(text: str) -> int:
    """Return how many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(parts: Sequence[Part], width: int) -> list[Part]:
    """Return parts cut to a width, with an ellipsis where something was left out."""
    if sum(width_of(part.text) for part in parts) <= width:
        return list(parts)
    kept: list[Part] = []
    left = width - 1
    for part in parts:
        text = part.text
        while width_of(text) > left:
            text = text[: max(0, min(len(text) - 1, left))]
        left -= width_of(text)
        if text != part.text:
            kept.append(Part(text + "…", part.style))
            break
        kept.append(part)
    return kept


__all__ = ["READABLE", "Cell", "Column", "Part", "Screen", "cut", "printable", "width_of"]
