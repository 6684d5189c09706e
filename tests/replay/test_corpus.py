"""Histories recorded under every Python replay under this one, to the same result, without any step."""

from __future__ import annotations

import asyncio
import json

import pytest

from perdure.model import chain
from tests.replay.record import HERE, SCENARIOS
from tests.runtime import histories
from tests.runtime.harness import lab

FILES = sorted(HERE.glob("*.json"))


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_every_recorded_history_replays(scenario, tmp_path):
    async def main():
        async with lab(tmp_path, [scenario]) as here:
            for path in (path for path in FILES if path.name.startswith(f"{scenario.name}-")):
                text = path.read_text(encoding="utf-8")
                history = histories.load(text)
                seen = await here.replay(scenario, history)
                assert json.loads(json.dumps(seen.trace)) == json.loads(text)["trace"], path.name
                old, new = history.events[-1], seen.history.events[-1]
                assert (new.kind, new.payload) == (old.kind, old.payload), path.name

    asyncio.run(main())


def test_there_is_a_history_of_each_scenario_from_each_python():
    minors = {path.stem.rpartition("-")[2] for path in FILES}
    assert minors >= {"3.11", "3.12", "3.13"}
    assert {path.stem for path in FILES} >= {f"{name}-{minor}" for name in SCENARIOS for minor in minors}


@pytest.mark.parametrize("path", FILES[:1], ids=lambda path: path.stem)
def test_a_document_is_read_as_it_was_written(path):
    history = histories.load(path.read_text(encoding="utf-8"))
    assert histories.load(histories.dump(history)) == history
    chain.check(history.uid, history.events)
