from __future__ import annotations

import pytest


@pytest.fixture
def path(made_store):
    """The address of the store; there is no run in it yet."""
    return made_store()
