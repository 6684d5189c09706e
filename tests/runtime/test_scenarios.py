from __future__ import annotations

import asyncio

import pytest

from tests.runtime import scenarios, scenarios_anyio, scenarios_shared, scenarios_sync
from tests.runtime.harness import attack, lab

ALL = scenarios.SCENARIOS + scenarios_shared.SCENARIOS + scenarios_anyio.SCENARIOS + scenarios_sync.SCENARIOS


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
@pytest.mark.parametrize("suspended", [None, 0], ids=["kept", "evicted"])
def test_a_run_cut_anywhere_goes_on_and_replays_alike(scenario, suspended, tmp_path):
    async def main():
        async with lab(tmp_path, [scenario], suspended=suspended) as here:
            await attack(here, scenario)

    asyncio.run(main())
