"""O30, G16: the code changes while runs are in flight. What still fits goes on; what nobody has is left alone."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from perdure import Engine, errors, workflow
from perdure.model.records import Status
from tests.crash.procs import Crew

pytestmark = pytest.mark.crash

CODE = """
import asyncio, sys
from perdure import Engine, step, workflow, sleep

@step
async def first(n: int) -> int:
    return n + 1

@step
async def second(n: int) -> int:
    return n * {factor}

{comment}
@workflow(name="{name}")
async def parked(n: int) -> int:
    n = await first(n + {shift})
    await sleep({seconds})
    return await second(n)

async def main(store, what):
    async with Engine(store, workflows=[parked], lease=30, heartbeat={heartbeat}) as engine:
        print("up", flush=True)
        if what == "start":
            await engine.enqueue(parked, 1, run_id="r")
        if what == "wait":
            print(await engine.get("r", parked).result(20), flush=True)
        else:
            await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main(*sys.argv[1:]))
"""


class App:
    """A user's program, as of one deploy."""

    def __init__(self, folder: Path, store: str, what: str, **code: object) -> None:
        file = folder / "app.py"
        values = {"factor": 10, "comment": "", "name": "parked", "seconds": 2, "shift": 0, "heartbeat": 10} | code
        file.write_text(textwrap.dedent(CODE).format(**values))
        self.process = subprocess.Popen(
            [sys.executable, file, store, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.line() == "up"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def finish(self) -> str:
        said = self.line()
        self.process.communicate(timeout=30)
        assert self.process.returncode == 0
        return said


def park(crew: Crew, **code: object) -> None:
    begin(crew, **code).kill()


def begin(crew: Crew, **code: object) -> App:
    """A program whose run has gone to sleep."""
    app = App(crew.folder, crew.store, "start", **code)
    store_says = Status.PENDING
    while store_says is not Status.SLEEPING:
        try:
            store_says = crew.row("r").status
        except AssertionError:  # not created yet
            continue
    return app


@pytest.mark.parametrize(
    ("change", "result"), [({"comment": "# another comment"}, "20"), ({"factor": 100}, "200")], ids=["comment", "body"]
)
def test_a_parked_run_goes_on_under_changed_code(crew: Crew, change: dict[str, object], result: str) -> None:
    park(crew)
    assert App(crew.folder, crew.store, "wait", **change).finish() == result


def test_a_run_whose_workflow_was_renamed_is_left_alone_until_the_old_code_returns(crew: Crew) -> None:
    park(crew, seconds=0.3)
    renamed = App(crew.folder, crew.store, "idle", name="renamed")
    row = crew.row("r")
    while row.wake_at is not None and row.wake_at > _now():
        row = crew.row("r")
    other = crew.worker()
    crew.enqueue("short", 1, "next")
    assert crew.outcome("next") == 2
    row = crew.row("r")
    assert (row.status, row.worker_key, row.reason) == (Status.SLEEPING, None, None)
    renamed.kill()
    assert App(crew.folder, crew.store, "wait", seconds=0.3).finish() == "20"
    assert other.is_alive()


@pytest.mark.parametrize("fate", [signal.SIGCONT, signal.SIGKILL])
def test_what_a_deploy_cannot_go_on_with_is_left_to_the_build_before_it(crew: Crew, fate: signal.Signals) -> None:
    """While that lives; it is stopped here, so that it is there and yet does not claim first."""
    before = begin(crew, seconds=1)
    before.process.send_signal(signal.SIGSTOP)
    after = App(crew.folder, crew.store, "idle", seconds=1, shift=1, heartbeat=0.1)
    while "drift_found" not in crew.kinds("r"):
        pass
    assert crew.kinds("r")[-2:] == ["drift_found", "run_released"]
    before.process.send_signal(fate)
    if fate == signal.SIGCONT:
        assert crew.outcome("r") == 20
    else:
        with pytest.raises(errors.DriftError, match="first#1"):
            crew.outcome("r")
        assert crew.kinds("r")[-1] == "run_blocked"
    before.kill()
    after.kill()


def test_a_second_workflow_of_the_same_name_is_refused(tmp_path: Path) -> None:
    @workflow(name="same")
    async def one(n: int) -> int:
        return n

    @workflow(name="same")
    async def other(n: int) -> int:
        return n

    with pytest.raises(errors.DuplicateName, match="same"):
        Engine(tmp_path / "perdure.db", workflows=[one, other])


def test_an_id_that_is_taken_by_another_workflow_is_refused_and_its_run_recovers(crew: Crew) -> None:
    first = crew.worker()
    crew.enqueue("gated", 1, "x")
    crew.ledger.until_said("begin", key="wait_at_gate#1")
    with pytest.raises(errors.RunConflict, match="gated"):
        crew.enqueue("short", 1, "x")
    with pytest.raises(errors.RunConflict, match="another input"):
        crew.enqueue("gated", 2, "x")
    first.kill()
    crew.worker()
    crew.ledger.until_said("begin", 2, key="wait_at_gate#1")
    crew.ledger.open_gate()
    assert crew.outcome("x") == 2


def _now() -> int:
    from perdure.clock import SystemClock

    return SystemClock().now()
