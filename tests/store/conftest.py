from __future__ import annotations

import shutil

import pytest

from perdure.store.open import is_postgres, open_store


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    path = tmp_path_factory.mktemp("empty") / "store.db"
    open_store(path).close()
    return path


@pytest.fixture
def store_path(empty_store, tmp_path):
    """Where an empty SQLite store is: copied, since making one is slow."""
    return shutil.copy(empty_store, tmp_path / "store.db")


@pytest.fixture
def store(request, new_store):
    """The address of an empty store."""
    address = new_store()
    return address if is_postgres(address) else str(request.getfixturevalue("store_path"))


@pytest.fixture
def bench(store):
    from perdure.testing.store_suite import Bench

    with Bench(lambda: open_store(store, durability="process")) as opened:
        yield opened
