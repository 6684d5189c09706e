"""A blocking engine of a process that forks: its child is told so, and neither hangs; an engine of its own works."""

from __future__ import annotations

import pytest

PROGRAM = """
import os, sys
from perdure import step, workflow
from perdure.errors import EngineNotOpen
from perdure.sync import Engine

@workflow
async def chore() -> str:
    return "done"

engine = Engine(workflows=[chore])
client = engine.client()
client.__enter__()
engine.enqueue(chore, run_id="parent")
child = os.fork()
if child == 0:
    try:
        engine.enqueue(chore, run_id="child")
    except EngineNotOpen as error:
        assert "forked" in error.message
        with Engine(workflows=[chore]) as own:
            assert own.get("parent", chore).result(timeout=20) == "done"
        print("told", flush=True)
    sys.exit()  # with the parent's client still open, which is not the child's to close
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert engine.get("parent", chore).result(timeout=20) == "done"
client.__exit__(None, None, None)
sys.exit(code)
"""


@pytest.mark.crash
@pytest.mark.only("sqlite")
def test_a_forked_child_is_told_that_the_engine_is_its_parents(processes):
    server = processes.start("-W", "ignore", "-c", PROGRAM)
    assert server.wait(timeout=30) == 0, processes.said()
    assert processes.said() == "told\n"
