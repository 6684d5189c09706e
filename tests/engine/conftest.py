from __future__ import annotations

import pytest

from tests.engine.desk import Clock, Desk


@pytest.fixture
def path(tmp_path):
    """Where the store is; nothing is there yet."""
    return tmp_path / "runs.db"


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def clock():
    return Clock()
