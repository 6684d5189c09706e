"""Each rule finds what it is for, where it is; and says nothing of code that is right."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from perdure.checking import RULES, check
from tests.checking.snippets import CLEAN, DIRTY, HEADER

EXPECTED = re.compile(r"#!(.*)$")


def found_in(path, source):
    path.write_text(HEADER + dedent(source), encoding="utf-8")
    return check(path)


def expected(source):
    """Lines and rules that the snippet itself announces."""
    text = HEADER + dedent(source)
    return sorted(
        (number, rule)
        for number, line in enumerate(text.splitlines(), 1)
        if (match := EXPECTED.search(line))
        for rule in match[1].split()
    )


@pytest.mark.parametrize("name", DIRTY)
def test_what_will_not_do_is_found_where_it_is(tmp_path, name):
    checked = found_in(tmp_path / "orders.py", DIRTY[name])
    assert sorted((one.line, one.rule) for one in checked.findings) == expected(DIRTY[name])


@pytest.mark.parametrize("name", CLEAN)
def test_what_is_right_is_left_alone(tmp_path, name):
    checked = found_in(tmp_path / "orders.py", CLEAN[name])
    assert [str(one) for one in checked.findings] == []
    assert checked.workflows > 0


def test_every_rule_has_a_snippet_that_breaks_it():
    assert {rule for source in DIRTY.values() for _, rule in expected(source)} == set(RULES)


def test_a_finding_says_where_what_why_and_what_instead(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = """
        def stamp():
            return time.time()

        @workflow
        async def wf(): return stamp()
    """
    [one] = found_in(tmp_path / "orders.py", source).findings
    line = HEADER.count("\n") + 3
    assert (one.file, one.line, one.column) == ("orders.py", line, 12)
    assert (one.rule, one.severity, one.workflow, one.function) == ("clock", "error", "wf", "stamp")
    assert one.message == "`time.time(…)` shows another time on every replay: write perdure.now()"
    assert str(one) == f"orders.py:{line}:12: clock: {one.message}"


def test_what_two_workflows_reach_is_told_once(tmp_path):
    source = """
        def stamp(): return time.time()

        @workflow
        async def one(): return stamp()

        @workflow
        async def two(): return stamp()
    """
    checked = found_in(tmp_path / "orders.py", source)
    assert (len(checked.findings), checked.workflows) == (1, 2)


@pytest.mark.parametrize(
    ("code", "spelling"),
    [
        ("async def wf(): label(1)", "await label.aio(…)"),
        ("async def wf(): work.sync(1)", "await work(…)"),
        ("def wf(): work(1)", "work.sync(…)"),
        ("def wf(): label.aio(1)", "label(…)"),
        ("async def wf(): time.sleep(1)", "await perdure.sleep(…)"),
        ("def wf(): time.sleep(1)", "perdure.sync.sleep(…)"),
    ],
)
def test_the_right_spelling_is_that_of_the_workflows_colour(tmp_path, code, spelling):
    [one] = found_in(tmp_path / "orders.py", f"@workflow\n{code}\n").findings
    assert spelling in one.instead
