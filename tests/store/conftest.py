from __future__ import annotations

import shutil

import pytest

from perdure.store.open import open_store


@pytest.fixture
def store_path(empty_store, tmp_path):
    """Where an empty SQLite store is: copied, since making one is slow."""
    return shutil.copy(empty_store, tmp_path / "store.db")


@pytest.fixture
def store(request, database):
    """The address of an empty store."""
    if database == "postgres":
        return request.getfixturevalue("made_schema")()
    return str(request.getfixturevalue("store_path"))


@pytest.fixture
def bench(store):
    from perdure.testing.store_suite import Bench

    with Bench(lambda: open_store(store, durability="process")) as opened:
        yield opened
