"""What every test shares: how hard hypothesis tries.

``HYPOTHESIS_PROFILE=thorough make test`` tries twenty times as many examples.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Deadlines measure the machine, not the code; the tests' own timeout catches what hangs.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
