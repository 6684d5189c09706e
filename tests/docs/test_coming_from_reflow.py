"""The page for those who come from Reflow has every line once, and each test that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.docs.pages import DOCS
from tests.house import tree

PAGE = DOCS / "reference" / "coming-from-reflow.md"
LINES = 187
SUITE = "tests/store/test_suite.py::test_store"
ROW = re.compile(r"^\| (\d+) \| (.+) \|$", re.MULTILINE)


def rows() -> dict[int, list[str]]:
    """By number: what Reflow does, what Perdure does, and the tests."""
    found: dict[int, list[str]] = {}
    for number, rest in ROW.findall(PAGE.read_text("utf-8")):
        assert int(number) not in found, f"line {number} is there twice"
        found[int(number)] = rest.split(" | ")
    return found


def named(cell: str) -> list[str]:
    """The tests that a cell consists of."""
    tests = re.findall(r"`([^`]+)`", cell)
    assert "<br>".join(f"`{test}`" for test in tests) == cell, cell
    return tests


@cache
def found_in(file: str) -> frozenset[str]:
    """The tests of a file as pytest names them, without parameters."""
    found = set()
    for node in tree.parsed(tree.ROOT / file).body:
        inside = node.body if isinstance(node, ast.ClassDef) and node.name.startswith("Test") else []
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for one in [node, *inside]:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_"):
                found.add(prefix + one.name)
    return frozenset(found)


@cache
def cases() -> frozenset[str]:
    """The cases of the stores' public suite."""
    folder = tree.PACKAGE / "testing" / "store_suite"
    return frozenset(
        node.name
        for path in tree.modules()
        if path.parent == folder
        for node in tree.parsed(path).body
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(mark) == "case" for mark in node.decorator_list)
    )


def is_there(test: str) -> bool:
    """Whether there is a test of this name, or a case of the suite."""
    if test.startswith(f"{SUITE}["):
        return test.endswith("]") and test[len(SUITE) + 1 : -1] in cases()
    file, _, name = test.partition("::")
    return (tree.ROOT / file).is_file() and name in found_in(file)


def test_every_line_is_there_once_and_in_its_place():
    assert list(rows()) == list(range(1, LINES + 1))
    assert [number for number, cells in rows().items() if len(cells) != 3] == []


def test_every_line_names_tests():
    assert [number for number, cells in rows().items() if not named(cells[-1])] == []


def test_every_test_named_is_there():
    every = [(number, test) for number, cells in rows().items() for test in named(cells[-1])]
    assert [(number, test) for number, test in every if not is_there(test)] == []


def test_what_is_not_there_yet_is_told_at_the_top():
    told = re.search(r"of that kind: (none|[\d, ]+)\.$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    assert told is not None
    lacking = [number for number, cells in rows().items() if "**not yet**" in cells[1].lower()]
    assert told[1] == (", ".join(map(str, lacking)) or "none")


def test_no_test_is_named_twice_in_a_line():
    twice = [number for number, cells in rows().items() if len(set(named(cells[-1]))) < len(named(cells[-1]))]
    assert twice == []


def test_what_is_not_there_is_told_from_what_is():
    assert is_there("tests/definitions/test_steps.py::TestInARun::test_a_callback_is_no_place_for_a_step")
    assert is_there(f"{SUITE}[a_run_is_created_once]")
    for test in (
        "tests/definitions/test_steps.py::test_a_callback_is_no_place_for_a_step",
        "tests/definitions/test_steps.py::TestInARun",
        f"{SUITE}[soon]",
        f"{SUITE}[nothing_of_this_name]",
        "tests/nowhere/test_nothing.py::test_nothing",
    ):
        assert not is_there(test)
