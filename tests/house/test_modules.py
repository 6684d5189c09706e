"""How modules are cut and how they import."""

from __future__ import annotations

import ast
import re
from statistics import median, quantiles

from tests.house import tree

MEDIAN, P90, LIMIT = 150, 400, 600
MOCKS = ("unittest.mock", "mock", "pytest_mock")


def lines(paths):
    """Lines of each file; files of five lines or fewer say nothing about how code is cut."""
    counted = {tree.where(path): len(tree.text(path).splitlines()) for path in paths}
    return {name: count for name, count in counted.items() if count > 5}


def test_no_module_is_longer_than_the_limit():
    found = lines(tree.python_files())
    assert found
    assert {name: count for name, count in found.items() if count > LIMIT} == {}


def test_most_modules_are_short():
    found = sorted(lines(tree.modules()).values())
    assert median(found) <= MEDIAN
    assert quantiles(found, n=10)[-1] <= P90


def test_imports_are_absolute():
    relative = [
        tree.where(path, node.lineno)
        for path in tree.python_files()
        if re.search(r"\bfrom[\s\\]*\.", tree.text(path))
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_annotations_are_never_evaluated_on_import():
    # A module of nothing but its docstring has none.
    missing = [
        tree.where(path)
        for path in tree.python_files()
        if not begins_with_annotations(tree.text(path))
        and len(tree.parsed(path).body) > 1
        and "__future__.annotations" not in dict(tree.imported(path))
    ]
    assert missing == []


def begins_with_annotations(text: str) -> bool:
    """Whether the import is what comes after the docstring: what most modules have can be seen from their heads."""
    head, found, _ = text.partition("\nfrom __future__ import annotations\n")
    try:
        body = ast.parse(head).body
    except SyntaxError:  # it is in the middle of something
        return False
    return bool(found) and (body == [] or (len(body) == 1 and ast.get_docstring(ast.parse(head)) is not None))


def test_nothing_of_ours_is_mocked():
    mocks = [
        f"{tree.where(path, line)} imports {name}"
        for path in tree.python_files()
        if "mock" in tree.text(path)
        for name, line in tree.imported(path)
        if any(name == mock or name.startswith(mock + ".") for mock in MOCKS)
    ]
    assert mocks == []


def test_nothing_of_ours_is_patched():
    """monkeypatch may change the environment, the directory and sys.path; never an attribute of Perdure."""
    patched = [
        tree.where(path, node.lineno)
        for path in tree.python_files()
        if re.search(r"\b(setattr|delattr)\b", tree.text(path))
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"setattr", "delattr"}
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in {"monkeypatch", "mp", "patch"}
        and names_perdure(path, node.args[0])
    ]
    assert patched == []


def names_perdure(path, target: ast.expr) -> bool:
    """Whether the expression (or dotted string) leads to Perdure."""
    if isinstance(target, ast.Constant):
        return str(target.value).startswith("perdure")
    names = {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
    ours = {"perdure"}
    for node in ast.walk(tree.parsed(path)):
        if isinstance(node, ast.Import):
            ours |= {name.asname or "perdure" for name in node.names if name.name.startswith("perdure")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("perdure"):
            ours |= {name.asname or name.name for name in node.names}
    return bool(names & ours)
