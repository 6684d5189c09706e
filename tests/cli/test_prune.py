"""``perdure prune``."""

from __future__ import annotations

import json

import pytest

from perdure import sync
from perdure.cli.exits import Exit
from perdure.errors import RunPurged
from tests.cli import shop
from tests.cli.conftest import order


def test_old_runs_are_counted_then_purged_then_refused(perdure, store):
    for run_id in ("one", "two"):
        perdure(*order(run_id))
    assert perdure(*order("bad", 101)).exit_code == Exit.NO
    told = perdure("prune", "--older-than", "0s", "--dry-run")
    assert "would purge 3 runs (2 completed of fulfil, 1 failed of fulfil)" in told.stderr
    assert perdure("prune", "--older-than", "0s").exit_code == Exit.USAGE  # nobody is there to be asked
    assert perdure("prune").exit_code == Exit.OK  # nothing is a month old
    assert perdure("prune", "--older-than", "0s", "--workflow", "other", "--yes").exit_code == Exit.OK
    assert perdure("prune", "--older-than", "0s", "--status", "running").exit_code == Exit.USAGE
    done = json.loads(
        perdure("prune", "--older-than", "0s", "--status", "completed", "--limit", "1", "--yes", "--json").stdout
    )
    assert (done["runs"], done["kinds"]) == (1, [{"workflow": "fulfil", "status": "completed", "runs": 1}])
    assert "purged 2 runs" in perdure("prune", "--older-than", "0s", "--yes").stderr
    for command in ("show", "events", "cancel", "resume"):
        told = perdure(command, "one")
        assert told.exit_code == Exit.NOT_FOUND
        assert "run 'one' completed on" in told.stderr
    assert "run 'bad' failed on" in perdure(*order("bad")).stderr
    with sync.Engine(store).client() as client, pytest.raises(RunPurged):
        client.enqueue(shop.fulfil, shop.Order(id="one"), run_id="one")
    perdure("prune", "--forget", "0s", "--yes")
