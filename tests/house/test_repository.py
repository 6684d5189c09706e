"""The repository stands on its own: no other machine's paths or hosts, no dead links, a changelog that is kept."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.house import tree

# Written in pieces, so that this file does not name what it forbids.
HOSTS = (
    "py" + "pi.org",
    "python" + "hosted.org",
    "registry.npm" + "js.org",
    "npm" + "js.com",
    "files.python" + "hosted",
)
PLACES = ("/" + "work/", "/" + "root/", "/tmp/" + "venv", "/opt/" + "pypi", "/opt/" + "wheels")  # noqa: S108
DOCUMENTS = [tree.where(path) for path in tree.files() if path.suffix == ".md"]
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def text_of(path):
    """The file's text; None if it is not text."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize("forbidden", HOSTS + PLACES)
def test_no_file_names_a_registry_or_a_place_of_one_machine(forbidden):
    found = [
        tree.where(path, number)
        for path in tree.files()
        for number, line in enumerate((text_of(path) or "").splitlines(), start=1)
        if forbidden in line
    ]
    assert found == []


def test_there_is_no_lock_file_with_urls_in_it():
    assert [tree.where(path) for path in tree.files() if path.name in {"uv.lock", "poetry.lock", "pdm.lock"}] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_to_files_lead_somewhere(document):
    path = tree.ROOT / document
    text = re.sub(r"`[^`]+`", "code", without_code(path.read_text(encoding="utf-8")))  # Stream[str]("words") is no link
    targets = [a or b for a, b in LINK.findall(text)]
    dead = []
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = path.parent / file if file else path
        if not found.exists() or (anchor and anchor not in anchors(found)):
            dead.append(target)
    assert dead == []


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(path):
    """The fragments a Markdown file's headings answer to."""
    headings = re.findall(r"^#+ +(.+)$", without_code(path.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_changelog_has_what_is_not_yet_released():
    headings = re.findall(r"^## (.+)$", (tree.ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])


def test_make_targets_named_in_documents_exist():
    targets = set(
        re.findall(r"^([a-z-]+):.*## ", (tree.ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    documents = [tree.ROOT / "README.md", tree.ROOT / "CONTRIBUTING.md"]
    told = {name for path in documents for name in re.findall(r"`make ([a-z-]+)`", path.read_text(encoding="utf-8"))}
    assert told
    assert told <= targets


def test_modules_named_in_documents_exist():
    text = (tree.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", text))
    assert named
    assert [name for name in sorted(named) if not (tree.PACKAGE / name).is_file()] == []


def test_what_type_checkers_are_to_infer_is_among_what_make_check_looks_at():
    tools = tomllib.loads((tree.ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    assert "tests/typing" in tools["mypy"]["files"]
    assert "tests/typing" in tools["basedpyright"]["include"]
