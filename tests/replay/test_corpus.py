"""Histories recorded under every Python replay under this one, to the same result, without any step."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from perdure.model import chain, histories
from tests.replay.record import HERE, SCENARIOS
from tests.runtime.harness import lab
from tests.runtime.histories import History

FILES = sorted(HERE.glob("*.json"))


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_every_recorded_history_replays(scenario, tmp_path):
    async def main():
        async with lab(tmp_path, [scenario]) as here:
            for path in (path for path in FILES if path.name.startswith(f"{scenario.name}-")):
                document = json.loads(path.read_text(encoding="utf-8"))
                history = History(*histories.read(document))
                seen = await here.replay(scenario, history)
                assert json.loads(json.dumps(seen.trace)) == document["trace"], path.name
                old, new = history.events[-1], seen.history.events[-1]
                assert (new.kind, said(new)) == (old.kind, said(old)), path.name

    asyncio.run(main())


def said(event):
    """A payload without its traceback: where in the code it was is no part of the format."""
    return re.sub(rb'"traceback":"(?:[^"\\]|\\.)*"', b"", event.payload)


def test_there_is_a_history_of_each_scenario_from_each_python():
    minors = {path.stem.rpartition("-")[2] for path in FILES}
    assert minors >= {"3.11", "3.12", "3.13", "3.14"}
    assert {path.stem for path in FILES} >= {f"{name}-{minor}" for name in SCENARIOS for minor in minors}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_history_is_written_again_as_it_was_read(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    history = histories.read(document)
    chain.check(history.row.uid, history.events)
    trace = document.pop("trace")
    assert histories.dump(history.row, history.events, history.get_artifact) == document
    assert trace is not None
