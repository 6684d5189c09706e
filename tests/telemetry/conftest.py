from __future__ import annotations

import logging

import pytest

from tests.engine.desk import Clock, Desk
from tests.telemetry.listening import Ear, Traces


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


@pytest.fixture
def traces():
    return Traces()


@pytest.fixture
def ear():
    """Hears everything that Perdure logs."""
    logger = logging.getLogger("perdure")
    before, ear = logger.level, Ear()
    logger.addHandler(ear)
    logger.setLevel(logging.DEBUG)
    yield ear
    logger.removeHandler(ear)
    logger.setLevel(before)
