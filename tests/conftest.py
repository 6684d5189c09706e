"""What every test shares: in which order they come, and how hard hypothesis tries.

``HYPOTHESIS_PROFILE=thorough make test`` tries twenty times as many examples.
"""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.bare.built", "tests.servers.fixtures", "tests.storm.summary"]

# Helpers that several folders import: assertions in them are to be shown like those of tests.
pytest.register_assert_rewrite("tests.runtime.harness", "tests.runtime.histories", "perdure.testing.store_suite")

# Deadlines measure the machine, not the code; the tests' own timeout catches what hangs.
settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("default"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread what waits for other processes, or takes long, among what computes; and end with what is short.

    Processes that share the tests then have something to do while others wait, and end at about the same time.
    """
    apart = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("crash")]
    short = [item for item in items if not (item.get_closest_marker("slow") or item.get_closest_marker("crash"))]
    places = {id(item): number / len(short) for number, item in enumerate(short)}
    places |= {id(item): 0.9 * number / len(apart) for number, item in enumerate(apart)}
    items.sort(key=lambda item: places[id(item)])


def pytest_collection_finish() -> None:
    """What is loaded by now stays: nobody who collects garbage need look through it each time."""
    gc.collect()
    gc.freeze()
