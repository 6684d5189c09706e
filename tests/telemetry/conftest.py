from __future__ import annotations

import logging

import pytest

from tests.engine.conftest import clock, desk, path
from tests.telemetry.listening import Ear, Traces

__all__ = ["clock", "desk", "ear", "path", "traces"]


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
