from __future__ import annotations

import shutil

import pytest

from perdure.store.open import open_store

pytest.register_assert_rewrite("perdure.testing.store_suite")


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    path = tmp_path_factory.mktemp("empty") / "store.db"
    open_store(path).close()
    return path


@pytest.fixture
def store_path(empty_store, tmp_path):
    """Where an empty store is: copied, since making one is slow."""
    return shutil.copy(empty_store, tmp_path / "store.db")


@pytest.fixture
def bench(store_path):
    from perdure.testing.store_suite import Bench

    with Bench(lambda: open_store(store_path, durability="process")) as opened:
        yield opened
