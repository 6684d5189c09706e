"""Whatever is done to a store in whatever order, it does as its model: see ``store_suite.machine``."""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from perdure.testing.store_suite.machine import store_machine

STORM = bool(os.environ.get("PERDURE_STORM"))
FEW = {"sqlite": 50, "postgres": 20}


@pytest.mark.slow
@pytest.mark.timeout(3600 if STORM else 60)
def test_a_store_does_as_its_model(bench, database):
    # The first sequence that fails is shown as it is; to make it short takes minutes, for which the storm has time.
    phases = [Phase.generate, Phase.shrink] if STORM else [Phase.generate]
    tries = settings(max_examples=FEW[database] * (40 if STORM else 1), stateful_step_count=60, phases=phases)
    run_state_machine_as_test(store_machine(bench), settings=tries)
