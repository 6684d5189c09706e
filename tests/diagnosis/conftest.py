from __future__ import annotations

import sys

import pytest

from perdure.store.open import open_store
from perdure.testing.store_suite import Bench


@pytest.fixture(autouse=True)
def one_library(monkeypatch):
    """Other tests of this process may have loaded a second copy of SQLite."""
    monkeypatch.delitem(sys.modules, "sqlite3", raising=False)


@pytest.fixture
def store(made_store):
    """The address of an empty store."""
    return made_store()


class Ward(Bench):
    """A bench whose store may be left in a bad way."""

    def __init__(self, address):
        self.address = address
        super().__init__(lambda: open_store(address, durability="process"))

    def check_folds(self):
        """Nothing: what is wrong is wrong on purpose."""


@pytest.fixture
def bench(store):
    with Ward(store) as opened:
        yield opened
