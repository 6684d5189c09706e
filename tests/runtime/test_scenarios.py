from __future__ import annotations

import asyncio

import pytest

from tests.runtime import (
    scenarios,
    scenarios_anyio,
    scenarios_saga,
    scenarios_shared,
    scenarios_signals,
    scenarios_sync,
)
from tests.runtime.harness import attack, lab

ALL = [
    one
    for file in (scenarios, scenarios_shared, scenarios_anyio, scenarios_sync, scenarios_saga, scenarios_signals)
    for one in file.SCENARIOS
]


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
@pytest.mark.parametrize("suspended", [None, 0], ids=["kept", "evicted"])
def test_a_run_cut_anywhere_goes_on_and_replays_alike(scenario, suspended, tmp_path):
    async def main():
        async with lab(tmp_path, [scenario], suspended=suspended) as here:
            await attack(here, scenario)

    asyncio.run(main())
