"""The page of other engines' faults has every report once, and each test that it names is there."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS
from tests.docs.test_coming_from_reflow import is_there, named
from tests.house import tree

PAGE = DOCS / "reference" / "what-went-wrong-elsewhere.md"
NUMBERS = [f"O{number:02}" for number in range(1, 31)] + [f"R{number:02}" for number in range(1, 11)]
ROW = re.compile(r"^\| ([OR]\d\d) \| \[([^\]]+)\]\((https://[^)]+)\) \| (.+) \| (.+) \|$", re.MULTILINE)


def test_every_report_is_there_once_and_in_its_place():
    assert [number for number, *_ in ROW.findall(PAGE.read_text("utf-8"))] == NUMBERS


def test_every_report_names_tests_that_are_there_or_says_that_there_is_nothing_yet():
    for number, _, _, does, cell in ROW.findall(PAGE.read_text("utf-8")):
        if cell == "–":
            assert does.startswith("**Not yet**"), number
        else:
            assert [test for test in named(cell) if not is_there(test)] == [], number


def test_tests_mention_no_report_that_is_not_there():
    for path in sorted((tree.ROOT / "tests").rglob("test_*.py")):
        for number in re.findall(r"\bO\d\d\b", path.read_text("utf-8")):
            assert number in NUMBERS, path
