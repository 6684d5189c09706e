"""The public surface: everything public is listed and documented, and importing it costs little."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys

import perdure
from tests.house import tree

HEAVY = {
    "IPython", "agents", "apsw", "click", "cryptography", "django", "fastapi", "flask", "opentelemetry",
    "prometheus_client", "psycopg", "pydantic_ai", "rich", "sqlalchemy", "sqlite3", "starlette", "zstandard",
}  # fmt: skip


def test_public_names_are_listed_sorted_and_complete():
    bound = set()
    for node in tree.parsed(tree.PACKAGE / "__init__.py").body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            bound |= {name.asname or name.name for name in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Assign):
            bound |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    assert bound
    public = {name for name in bound if not name.startswith("_")} | (bound & {"__version__"})
    assert set(perdure.__all__) >= public
    assert list(perdure.__all__) == sorted(set(perdure.__all__), key=by_kind)
    assert [name for name in perdure.__all__ if not hasattr(perdure, name)] == []


def by_kind(name: str) -> tuple[int, str]:
    """Ruff's order: constants, classes, the rest."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_every_public_name_says_what_it_is():
    silent = []
    for name in perdure.__all__:
        value = getattr(perdure, name)
        if not (inspect.isclass(value) or callable(value)):
            continue  # a constant; documented where it is defined
        own = vars(value).get("__doc__") if inspect.isclass(value) else inspect.getdoc(value)
        if not (own or "").strip():
            silent.append(name)
    assert silent == []


def test_every_module_says_what_it_is():
    assert [tree.where(path) for path in tree.modules() if not ast.get_docstring(tree.parsed(path))] == []


def test_every_error_has_a_code_of_its_own():
    errors = [value for value in map(vars(perdure.errors).get, dir(perdure.errors)) if is_error(value)]
    codes = [error.code for error in errors]
    assert len(codes) > 10
    assert sorted(codes) == sorted(set(codes))


def is_error(value: object) -> bool:
    """Whether the value is one of our error classes."""
    return inspect.isclass(value) and issubclass(value, perdure.errors.PerdureError)


def test_importing_perdure_loads_nothing_heavy():
    code = "import json, sys, perdure; print(json.dumps([n.partition('.')[0] for n in sys.modules]))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=30)
    loaded = set(json.loads(run.stdout))
    assert "perdure" in loaded
    assert loaded & HEAVY == set()
