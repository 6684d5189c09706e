from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.harness import CUTS, attack, lab
from tests.runtime.programs import PROGRAMS, program


@settings(max_examples=10 * CUTS)
@given(tree=PROGRAMS, seed=st.integers(0, 1 << 30))
def test_programs_made_by_chance_replay_alike(tmp_path_factory, tree, seed):
    async def main():
        async with lab(tmp_path_factory.mktemp("lab"), [program], seed=seed, suspended=seed % 2) as here:
            await attack(here, program, tree, cuts=3, seed=seed)

    asyncio.run(main())
