"""Text: aligned, cut at the edge, coloured only where that is wanted, and never able to play with the terminal."""

from __future__ import annotations

import io

import pytest

from perdure.cli.render import Column, Part, Screen, cut, printable, width_of
from perdure.cli.words import ago, span


class Terminal(io.StringIO):
    def isatty(self):
        return True


def drawn(*, terminal=False, **environ):
    return Screen(Terminal() if terminal else io.StringIO(), environ)


@pytest.mark.parametrize(
    ("terminal", "environ", "coloured"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (False, {}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "0"}, False),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (True, {"FORCE_COLOR": "1", "TERM": "dumb"}, True),
    ],
)
def test_colours_only_where_they_are_wanted(terminal, environ, coloured):
    assert drawn(terminal=terminal, **environ).is_coloured is coloured


def test_columns_are_aligned_and_empty_ones_left_out():
    out = io.StringIO()
    Screen(out, {}).table([Column("A"), Column(), Column("N", right=True)], [("x", "", "1"), ("yyyy", "", "23")])
    assert out.getvalue() == "A      N\nx      1\nyyyy  23\n"


@pytest.mark.parametrize("width", [30, 40, 60])
def test_on_a_terminal_the_widest_column_gives_way(width):
    out = Terminal()
    screen = Screen(out, {"NO_COLOR": "1"})
    screen.width = width
    screen.table(
        [Column("A", flexible=True), Column("B"), Column("C", flexible=True)], [("short-one", "fixed", "long " * 30)]
    )
    lines = out.getvalue().splitlines()
    assert all(width_of(line) <= width for line in lines)
    assert lines[1].startswith("short-one")
    assert lines[1].endswith("…")


def test_in_a_pipe_nothing_is_cut():
    out = io.StringIO()
    Screen(out, {}).line("x" * 500)
    assert out.getvalue() == "x" * 500 + "\n"


def test_wide_characters_count_twice():
    assert width_of("日本") == 4
    assert width_of("é") == 1
    assert [part.text for part in cut([Part("日本語")], 5)] == ["日本…"]


def test_control_characters_do_not_reach_the_terminal():
    assert printable("a\x1b[31mb\nc") == "a\\x1b[31mb c"
    out = io.StringIO()
    Screen(out, {}).line(Part("\x9b2J", "bad"))
    assert out.getvalue() == "\\x9b2J\n"


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (400, "0.4 ms"), (12_345, "12 ms"), (1_234_567, "1.23 s"), (59_400_000, "59.4 s"), (90_000_000, "1 min 30 s"),
        (3_600_000_000, "1 h"), (14 * 86_400_000_000, "14 d"), (100_000_000_000_000, "1157 d"),
    ],
)  # fmt: skip
def test_durations_for_people(micros, text):
    assert span(micros) == text


def test_how_long_ago():
    second = 1_000_000
    assert [ago(0, now * second) for now in (0, 5, 300, 86400 * 3)] == ["now", "5 s ago", "5 min ago", "3 d ago"]
    assert ago(100 * second, 0) == "in 100 s"
