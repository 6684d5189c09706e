"""The site is whole, needs nothing from elsewhere, and has for programs what it has for people."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from tests.docs import llms
from tests.docs.pages import DOCS, PAGES
from tests.house import tree

NAMES = [str(page.relative_to(DOCS)) for page in PAGES]
LOADED = {"audio", "embed", "iframe", "img", "link", "object", "script", "source", "use", "video"}
ELSEWHERE = re.compile(r"(https?:)?//")


class Look(HTMLParser):
    """What a page makes a browser load, the pages its navigation leads to, and the classes on it."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.menu: list[str] = []
        self.classes: set[str] = set()

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.classes |= set(given.get("class", "").split())
        if tag in LOADED:
            self.loads += [given[name] for name in ("src", "href", "data", "srcset") if name in given]
        if tag == "a" and "md-nav__link" in given.get("class", ""):
            self.menu.append(given["href"].partition("#")[0])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as ``make docs`` does it."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        build,
        cwd=tree.ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr  # --quiet would drop the warnings, and with them what is strict
    return folder


@pytest.fixture(scope="module")
def looks(site):
    """What there is on each page."""
    found = {}
    for page in sorted(site.rglob("*.html")):
        found[str(page.relative_to(site))] = look = Look()
        look.feed(page.read_text("utf-8"))
    return found


def test_every_page_is_in_the_navigation(looks):
    start = {link.removeprefix("./") for link in looks["index.html"].menu} | {"index.html"}
    assert start - {""} == {name.removesuffix(".md") + ".html" for name in NAMES}


def test_nothing_is_loaded_from_elsewhere(site, looks):
    assert [(name, link) for name, look in looks.items() for link in look.loads if ELSEWHERE.match(link)] == []
    assert sum(len(look.loads) for look in looks.values()) > len(NAMES)
    styles = [(style.name, style.read_text("utf-8")) for style in site.rglob("*.css")]
    assert styles
    assert [name for name, text in styles if re.search(r"""(url\(|@import)\s*["']?(https?:)?//""", text)] == []
    # The theme's script fetches what draws these; drawings are text here.
    assert [name for name, look in looks.items() if "mermaid" in look.classes] == []


def test_programs_get_every_page_as_it_was_written(site):
    short, full = ((site / name).read_text("utf-8") for name in ("llms.txt", "llms-full.txt"))
    assert sorted(re.findall(r"^- \[[^\]]+\]\(([^)]+)\): .{15,}$", short, re.MULTILINE)) == sorted(NAMES)
    for page, name in zip(PAGES, NAMES, strict=True):
        text = page.read_text("utf-8")
        assert (site / name).read_text("utf-8") == text
        assert text.strip() in full


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("# A\n\nOne **thing**. Another.\n", "One thing."),
        ("# A\n\n## B\n\nSee [this\none](b.md): it is there.\n", "See this one: it is there."),
        ("# A\n\n```py\nx.\n```\n\n`perdure` is. It.", "`perdure` is."),
    ],
)
def test_a_page_is_summed_up_by_its_first_sentence(page, said):
    assert llms.summary(page) == said
