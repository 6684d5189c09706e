"""Record one history of every scenario under this Python: ``PYTHONPATH=src python -m tests.replay.record``.

A scenario that has been recorded is part of the format's promise: it is not changed afterwards, only others are added.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from tests.runtime import histories, scenarios, scenarios_anyio, scenarios_shared, scenarios_sync
from tests.runtime.harness import PYTHON, lab

HERE = Path(__file__).parent / "histories"
MODULES = (scenarios, scenarios_shared, scenarios_anyio, scenarios_sync)
SCENARIOS = {scenario.name: scenario for module in MODULES for scenario in module.SCENARIOS}


async def record(scenario, folder):
    async with lab(folder, [scenario], seed=PYTHON) as here:
        seen = await here.live(scenario, run_id=scenario.name)
    document = json.loads(histories.dump(seen.history))
    document["trace"] = json.loads(json.dumps(seen.trace))
    path = HERE / f"{scenario.name}-{PYTHON}.json"
    events = document.pop("events")
    lines = ",\n  ".join(json.dumps(event, separators=(",", ":")) for event in events)
    head = json.dumps(document, separators=(",", ":"))
    path.write_text(f'{head[:-1]},\n "events":[\n  {lines}\n]}}\n', encoding="utf-8")


def main():
    HERE.mkdir(exist_ok=True)
    for scenario in SCENARIOS.values():
        if not (HERE / f"{scenario.name}-{PYTHON}.json").exists():
            with tempfile.TemporaryDirectory() as folder:
                asyncio.run(record(scenario, Path(folder)))


if __name__ == "__main__":
    main()
