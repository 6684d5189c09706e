"""One deterministic profile for all property tests of the model."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "model", derandomize=True, database=None, deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("model")
