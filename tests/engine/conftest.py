from __future__ import annotations

import pytest

from tests.engine.desk import Clock, Desk


@pytest.fixture
def path(made_store):
    """The address of the store; there is no run in it yet."""
    return made_store()


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def clock():
    return Clock()
