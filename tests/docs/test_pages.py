"""Every page is followed to the letter: its programs run, and its commands print what the page shows."""

from __future__ import annotations

import re
import sys
import types

import pytest

from tests.docs.pages import DOCS, PAGES, Shell, commands, fences, fits
from tests.house import tree

NOT_TYPED = {"text", "ini", "py", "json", "mermaid", "toml"}
FOLLOWED = [page for page in PAGES if any(fence.language in {"python", "console"} for fence in fences(page))]


BEGINNING = DOCS / "tutorial"
"""Whoever reads this has nothing yet but Python, and what the page has told so far."""


@pytest.fixture
def shell(page, tmp_path, request):
    """A terminal; for the tutorial, in an environment that has nothing but what was built from here."""
    bare = page.is_relative_to(BEGINNING)
    shell = Shell(tmp_path, request.getfixturevalue("built").layer(tmp_path / "env") if bare else None)
    yield shell
    shell.close()


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_does_what_it_says(page, shell, monkeypatch, request):
    monkeypatch.chdir(shell.folder)
    if "$DATABASE_URL" in page.read_text("utf-8"):
        shell.environ["DATABASE_URL"] = request.getfixturevalue("postgres_url")
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    module = types.ModuleType("the_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for fence in fences(page):
        if fence.language == "python" and fence.title is not None:
            (shell.folder / fence.title).write_text(fence.text, encoding="utf-8")
        elif fence.language == "python":
            source = "\n" * (fence.line - 1) + fence.text  # so that tracebacks name the page's line
            exec(compile(source, str(page), "exec"), module.__dict__)  # noqa: S102 - our own page
        elif fence.language == "console":
            for command in commands(fence.text):
                found = shell.type(command)
                assert fits(command.expected, found), f"{page}:{fence.line}: $ {command.text}\n" + "\n".join(found)


def test_there_are_pages_and_every_fence_is_of_a_known_kind():
    assert len(FOLLOWED) > 5
    kinds = {fence.language for page in PAGES for fence in fences(page)}
    assert kinds <= NOT_TYPED | {"python", "console"}


def test_every_page_can_be_reached_from_the_index():
    index = (DOCS / "index.md").read_text("utf-8")
    assert [str(page.relative_to(DOCS)) for page in PAGES if page.name != "index.md"] == [
        name for page in PAGES if page.name != "index.md" and f"({(name := str(page.relative_to(DOCS)))})" in index
    ]


def test_every_test_that_a_page_names_is_there():
    named = {name for page in PAGES for name in re.findall(r"`(tests/[\w/.]+)`", page.read_text("utf-8"))}
    assert len(named) > 10
    assert [name for name in sorted(named) if not (tree.ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        (["a", "…", "c"], ["a", "b", "b", "c"], True),
        (["a", "…", "c"], ["a", "c"], True),
        (["a", "c"], ["a", "b", "c"], False),
        (["took 3 ms, pid 17"], ["took 1.5 s, pid 4"], True),
        (["took 3 ms"], ["took long"], False),
        (["key …"], ["key x/y"], True),
        ([], ["a"], False),
        (["a"], [], False),
    ],
)
def test_what_is_shown_is_compared_but_for_what_differs_each_time(expected, found, same):
    assert fits(expected, found) is same
