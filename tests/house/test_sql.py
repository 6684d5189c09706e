"""SQL lives in .sql files: a query is found by its name, read in one place, and prepared by a test."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house import tree

STATEMENT = re.compile(
    r"""\s*(
        select\s+.+\sfrom\s | select\s+[\w*]+\s*(\(.*\))?\s*;?\s*$
      | insert\s+(or\s+\w+\s+)?into\s | replace\s+into\s
      | update\s+(or\s+\w+\s+)?\S+\s+set\s | delete\s+from\s
      | with\s+(recursive\s+)?\w+\s*(\(.*?\))?\s+as\s*(not\s+)?(materialized\s*)?\(
      | create\s+(unique\s+|temp\s+|temporary\s+|virtual\s+)?(table|index|view|trigger)\s
      | drop\s+(table|index|view|trigger)\s | alter\s+table\s
      | attach\s+(database\s+)?\S+\s+as\s | pragma\s+\w+ | vacuum\b | analyze\s*;?\s*$ | reindex\s
      | begin(\s+(immediate|deferred|exclusive|transaction)\b.*|\s*;?\s*$)
      | commit\s*;?\s*$ | end\s+transaction | rollback(\s+to\b.*|\s*;?\s*$)
      | savepoint\s+\w+\s*;?\s*$ | release\s+savepoint\s
    )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
BARE = re.compile(r"\s*(begin|commit|rollback|analyze)\s*;?\s*\Z", re.IGNORECASE)


def docstrings(module: ast.Module):
    """String constants that are statements of their own: documentation."""
    return {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}


def is_sql(text: str) -> bool:
    """Whether a database would take the text for a statement.

    A bare word counts only in capitals: 'commit' is also a verb of ours, 'COMMIT' is a statement.
    """
    if BARE.match(text):
        return text.strip().isupper() or text.strip().endswith(";")
    return STATEMENT.match(text) is not None


def test_no_sql_in_python():
    found = [
        f"{tree.where(path, node.lineno)}: {node.value.strip()[:60]}"
        for path, said in ((path, docstrings(tree.parsed(path))) for path in tree.modules())
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in said
        and is_sql(node.value)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT run_key FROM runs WHERE run_id = ?",
        "select 1",
        "\n  insert into events values (?, ?)",
        "UPDATE runs SET epoch = epoch + 1",
        "delete from inbox",
        "WITH due AS (SELECT 1) SELECT * FROM due",
        "create table t (a)",
        "PRAGMA journal_mode = wal",
        "BEGIN IMMEDIATE",
        "BEGIN",
        "COMMIT",
        "rollback;",
        "ROLLBACK TO item",
        "SAVEPOINT item",
    ],
)
def test_what_is_sql_is_seen(text):
    assert is_sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "commit",
        "begin",
        "rollback",
        "update the run's row",
        "with",
        "delete it",
        "analyze",
        "released",
        "create a store",
        "end",
        "begin again from the start",
        "drop it",
    ],
)
def test_what_is_prose_is_left_alone(text):
    assert not is_sql(text)
