"""A second SQLite library on an open store is refused, and on anything else left alone."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from perdure.errors import StoreUnsafe
from perdure.store.open import open_store


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.db") as opened:
        yield opened


def symlink(path):
    path.with_name("soft.db").symlink_to(path)
    return path.with_name("soft.db")


def hardlink(path):
    os.link(path, path.with_name("hard.db"))
    return path.with_name("hard.db")


SPELLINGS = {
    "text": str,
    "path": Path,
    "bytes": lambda path: str(path).encode(),
    "relative": os.path.relpath,
    "symlink": symlink,
    "hardlink": hardlink,
    "uri": lambda path: f"file:{path}?mode=ro",
    "uri with slashes": lambda path: f"file://{path}",
    "uri with escapes": lambda path: f"file:{path}".replace("store", "%73tore"),
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_the_standard_library_does_not_open_an_open_store(spelling, store):
    with pytest.raises(StoreUnsafe) as refused:
        sqlite3.connect(spelling(store.path), uri=True)
    assert refused.value.advice


def test_other_databases_are_nobodys_business(store, tmp_path):
    for target in (":memory:", "", tmp_path / "new.db", f"file:{tmp_path}/uri.db", "file::memory:?cache=shared"):
        sqlite3.connect(target, uri=True).close()


def test_a_store_that_every_handle_has_closed_may_be_opened(tmp_path):
    one, two = open_store(tmp_path / "store.db"), open_store(tmp_path / "store.db")
    one.close()
    with pytest.raises(StoreUnsafe):
        sqlite3.connect(tmp_path / "store.db")
    two.close()
    sqlite3.connect(tmp_path / "store.db").close()
