"""Record one history of every scenario under this Python: ``PYTHONPATH=src python -m tests.replay.record``.

The files are histories as ``perdure export`` writes them. One key is added, ``trace``: what the workflow noted.
A scenario that has been recorded is part of the format's promise: it is not changed afterwards, only others are added.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from perdure.model import chain, histories
from tests.runtime import (
    scenarios,
    scenarios_anyio,
    scenarios_saga,
    scenarios_shared,
    scenarios_signals,
    scenarios_sync,
)
from tests.runtime.harness import PYTHON, lab

HERE = Path(__file__).parent / "histories"
MODULES = (scenarios, scenarios_shared, scenarios_anyio, scenarios_sync, scenarios_signals, scenarios_saga)
TELL_WHERE = {"saga_after_the_code", "deadlocks_and_tells"}
"""Scenarios that end in a failure whose text names the run and lines of code."""
SCENARIOS = {
    scenario.name: scenario for module in MODULES for scenario in module.SCENARIOS if scenario.name not in TELL_WHERE
}


def without_places(history):
    """The same history as if it had been recorded nowhere in particular: where code lies is no part of the format."""
    places = [os.fsencode(f"{place}{os.sep}") for place in (Path(__file__).parents[2], sys.base_prefix, sys.prefix)]
    link = chain.genesis(history.row.uid)
    events = []
    for event in history.events:
        payload, args = event.payload, event.args
        for place in places:
            payload = payload and payload.replace(place, b"")
            args = args and args.replace(place, b"")
        events.append(chain.seal(link, *event._replace(payload=payload, args=args)[:-1]))
        link = events[-1].hash
    return history._replace(events=events)


def write(path, document):
    document = dict(document)
    events = document.pop("events")
    lines = ",\n  ".join(json.dumps(event, separators=(",", ":")) for event in events)
    head = json.dumps(document, separators=(",", ":"))
    path.write_text(f'{head[:-1]},\n "events":[\n  {lines}\n]}}\n', encoding="utf-8")


async def record(scenario, folder):
    async with lab(folder, [scenario], seed=PYTHON) as here:
        seen = await here.live(scenario, run_id=scenario.name)
    history = without_places(seen.history)
    document = histories.dump(history.row, history.events, history.get_artifact)
    write(HERE / f"{scenario.name}-{PYTHON}.json", {**document, "trace": seen.trace})


def main():
    HERE.mkdir(exist_ok=True)
    for scenario in SCENARIOS.values():
        if not (HERE / f"{scenario.name}-{PYTHON}.json").exists():
            with tempfile.TemporaryDirectory() as folder:
                asyncio.run(record(scenario, Path(folder)))


if __name__ == "__main__":
    main()
