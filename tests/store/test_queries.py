from __future__ import annotations

import ast
from pathlib import Path

import pytest

import perdure.store.sqlite
from perdure.store.queries import load_queries, parse_queries
from perdure.store.sqlite.sql import QUERIES

SOURCE = Path(perdure.store.sqlite.__file__).parent


def test_a_query_is_found_by_its_name():
    text = "-- a remark\n\n-- name: one\n-- Does one.\nSELECT 1;\n\n-- name: two\n-- Does two.\nSELECT\n  2;\n"
    assert parse_queries(text) == {"one": "SELECT 1", "two": "SELECT\n  2"}


def test_a_name_is_given_once(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.sql").write_text("-- name: same\n-- Does it.\nSELECT 1;\n")
    with pytest.raises(ValueError, match="same"):
        load_queries(tmp_path)


def test_every_query_says_what_it_does():
    for file in (SOURCE / "queries").glob("*.sql"):
        text = file.read_text()
        assert len(parse_queries(text)) == text.count("-- name: ")


def test_every_query_is_used_and_every_one_used_is_there():
    used = set()
    for file in (*SOURCE.glob("*.py"), SOURCE.parent / "listing.py"):
        used |= {
            node.value for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }  # fmt: skip
        used |= {"synchronous_disk", "synchronous_process", "count_list_by_creation", "count_list_by_end"}
    assert set(QUERIES) - used == set()
    subscripts = {
        node.slice.value
        for file in SOURCE.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "QUERIES"
        and isinstance(node.slice, ast.Constant)
    }  # fmt: skip
    assert subscripts - set(QUERIES) == set()
