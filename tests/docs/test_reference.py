"""The reference pages are complete, and true."""

from __future__ import annotations

import inspect
import re

import perdure
from perdure import errors
from perdure.model.records import Kind
from tests.docs import findings
from tests.docs.pages import DOCS
from tests.docs.reference import GROUPS, PAGE, page
from tests.house import tree


def reference(name: str) -> str:
    return (DOCS / "reference" / name).read_text("utf-8")


def test_the_api_page_is_up_to_date():
    text = PAGE.read_text("utf-8")
    assert page(text) == text, "python -m tests.docs.reference writes it anew"


def test_the_api_page_has_every_public_name_once():
    assert sorted(name for names in GROUPS.values() for name in names.split()) == sorted(perdure.__all__)


def test_the_api_page_says_something_of_everything():
    sections = re.split(r"^### ", reference("api.md"), flags=re.MULTILINE)[1:]
    assert [
        part.splitlines()[0] for part in sections if len(re.sub(r"```.*?```", "", part, flags=re.DOTALL)) < 80
    ] == []


def test_the_errors_page_has_every_error_with_its_code():
    classes = {
        (value.code, name)
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.PerdureError)
    }
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| .+ \| .+ \|$", reference("errors.md"), flags=re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == classes


def test_the_findings_page_is_up_to_date():
    text = findings.PAGE.read_text("utf-8")
    assert findings.page(text) == text, "python -m tests.docs.findings writes it anew"


def test_the_events_page_has_every_kind():
    text, _, reserved = reference("events.md").partition("## Reserved")
    told = re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE)
    unused = re.findall(r"`(\w+)`", reserved)
    assert sorted(told + unused) == sorted(kind.word for kind in Kind)


def test_reserved_kinds_are_written_by_nobody():
    reserved = re.findall(r"`(\w+)`", reference("events.md").partition("## Reserved")[2])
    writers = [path for path in tree.modules() if {"runtime", "store"} & set(path.relative_to(tree.PACKAGE).parts)]
    text = "".join(path.read_text("utf-8") for path in writers)
    assert "Kind.RUN_CLAIMED" in text
    assert [word for word in reserved if re.search(rf"Kind\.{word.upper()}\b", text)] == []
