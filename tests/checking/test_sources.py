"""What is looked at: modules by name, files, folders and packages, and what they import of their own package."""

from __future__ import annotations

import sys
import types
from textwrap import dedent

import pytest

import perdure.demo.review
from perdure.checking import check
from perdure.errors import DefinitionError
from tests.docs.pages import PAGES, fences
from tests.house import tree

WORKFLOW = """
    from perdure import workflow
    {imported}

    @workflow
    async def wf(x):
        return {called}(x)
"""
HELPER = "import time\n\ndef stamp(x):\n    return time.time()\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the files of a program into the working directory."""
    monkeypatch.chdir(tmp_path)

    def files(**sources):
        for name, source in sources.items():
            path = tmp_path / f"{name.replace('__in__', '/').replace('init', '__init__')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(source), encoding="utf-8")
        return tmp_path

    return files


def places(*targets):
    return [f"{one.file}:{one.line}" for one in check(*targets).findings]


@pytest.mark.parametrize(
    ("imported", "called"),
    [
        ("from shop.times import stamp", "stamp"),
        ("from shop.times import stamp as when", "when"),
        ("from .times import stamp", "stamp"),
        ("from . import times", "times.stamp"),
        ("import shop.times", "shop.times.stamp"),
        ("import shop.times as t", "t.stamp"),
        ("from shop import stamp", "stamp"),
    ],
)
def test_helpers_of_the_same_package_are_followed(write, imported, called):
    write(
        shop__in__init="from shop.times import stamp\n",
        shop__in__times=HELPER,
        shop__in__orders=WORKFLOW.format(imported=imported, called=called),
    )
    assert places("shop.orders") == ["shop/times.py:4"]
    assert places("shop") == ["shop/times.py:4"]
    assert places("shop/orders.py") == ["shop/times.py:4"]


def test_helpers_beside_a_script_are_followed_and_those_of_other_packages_are_not(write):
    write(
        times=HELPER,
        script=WORKFLOW.format(imported="from times import stamp", called="stamp"),
        shop__in__init="",
        shop__in__orders=WORKFLOW.format(imported="from times import stamp", called="stamp"),
    )
    assert places("script") == ["times.py:4"]
    assert places("shop") == []


def test_a_comment_in_a_helper_lets_it_stay(write):
    write(
        times=HELPER.replace("time.time()", "time.time()  # perdure: ignore[clock]"),
        script=WORKFLOW.format(imported="import times", called="times.stamp"),
    )
    assert places("script") == []


def test_nothing_is_imported_or_executed(write):
    write(script="raise SystemExit('executed')\n" + dedent(WORKFLOW.format(imported="import times", called="print")))
    assert check("script").workflows == 1
    assert "script" not in sys.modules


def test_a_module_can_be_given_itself():
    assert check(perdure.demo.review).workflows == 1


@pytest.mark.parametrize("target", ["nowhere", "nowhere.at.all", "nowhere.py", "no/where"])
def test_what_is_not_there_is_refused(write, target):
    write()
    with pytest.raises(DefinitionError, match="there is no"):
        check(target)


@pytest.mark.parametrize("source", [b"def broken(:\n", b"x = '\xff'\n", b"x = 1\0\n", b"x = (\n"])
def test_what_is_no_python_is_refused(write, source):
    (write() / "broken.py").write_bytes(source)
    with pytest.raises(DefinitionError, match=r"broken\.py is no Python source"):
        check("broken")


def test_a_module_without_a_file_is_refused():
    with pytest.raises(DefinitionError, match="no source file"):
        check(types.ModuleType("made_up"))


def test_names_that_lead_in_circles_are_left_alone(write):
    write(
        a="from b import x\n",
        b="from a import x\n",
        script=WORKFLOW.format(imported="from a import x; y = z; z = y", called="x(y)"),
    )
    assert places("script") == []


def test_of_the_examples_the_demo_and_the_pages_only_what_a_page_does_wrong_on_purpose_is_found(tmp_path):
    for page in PAGES:
        if page.name == "check.md":  # its program is there to be found
            continue
        python = [fence for fence in fences(page) if fence.language == "python"]
        name = str(page.relative_to(tree.ROOT)).replace("/", "_").removesuffix(".md").replace("-", "_")
        for number, fence in enumerate(fence for fence in python if fence.title is not None):
            (tmp_path / f"{name}_{number}.py").write_text(fence.text, encoding="utf-8")
        (tmp_path / f"{name}.py").write_text("".join(f.text for f in python if f.title is None), encoding="utf-8")
    checked = check(tmp_path, tree.ROOT / "examples", tree.PACKAGE / "demo")
    assert [(one.workflow, one.rule) for one in checked.findings] == [
        ("once", "global-state"),
        ("careless", "thread"),
    ]
    assert checked.workflows > 20
