from __future__ import annotations

import pytest

from tests.engine.desk import Clock, Desk


@pytest.fixture
def path(new_store):
    """The address of the store; nothing is there yet."""
    return new_store()


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def clock():
    return Clock()
