"""What every test shares: how hard hypothesis tries.

``HYPOTHESIS_PROFILE=thorough make test`` tries twenty times as many examples.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.servers.fixtures"]

# Helpers that several folders import: assertions in them are to be shown like those of tests.
pytest.register_assert_rewrite("tests.runtime.harness", "tests.runtime.histories", "perdure.testing.store_suite")

# Deadlines measure the machine, not the code; the tests' own timeout catches what hangs.
settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("default"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
