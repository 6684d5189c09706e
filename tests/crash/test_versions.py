"""Several versions of one workflow, and patches, across deploys of real processes that are killed."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner

from perdure.cli.main import cli
from perdure.model.payloads import fields
from perdure.model.records import Kind, Status
from tests.crash.procs import Crew

pytestmark = pytest.mark.crash

HEAD = """
import asyncio, os, sys
import perdure
from perdure import Engine, sleep, step, workflow

@step
async def note(what: str) -> str:
    return f"{what} by {os.getpid()}" if "pid" in what else what
"""
FIRST = """
@workflow(name="parked")
async def first(n: float) -> list[str]:
    done = [await note("old pid")]
    await sleep(n)
    return [*done, await note("old end")]
"""
SECOND = """
@workflow(name="parked", version="2")
async def second(n: float) -> list[str]:
    return [await note("new pid"), await note("new end")]
"""
PLAIN = """
@workflow
async def changing(n: float) -> list[str]:
    done = [await note("a")]
    await sleep(n)
    return [*done, await note("b")]
"""
PATCHED = """
@workflow
async def changing(n: float) -> list[str]:
    done = [await note("a")]
    if perdure.patched("before"):
        done.append(await note("checked before"))
    await sleep(n)
    if perdure.patched("after"):
        done.append(await note("checked after"))
    return [*done, await note("b")]
"""
TAIL = """
async def main(store, *commands):
    async with Engine(store, workflows=[{workflows}], heartbeat=0.2, lease=30) as engine:
        print("up", flush=True)
        for command in commands:
            what, run_id, *rest = command.split()
            if what == "start":
                await engine.enqueue(globals()[rest[0]], float(rest[1]), run_id=run_id)
            else:
                print(*await engine.get(run_id).result(20), sep=", ", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main(*sys.argv[1:]))
"""


class Deploy:
    """A program as of one deploy: some workflows, and what its process is to start and to wait for."""

    def __init__(self, crew: Crew, code: str, workflows: str, *commands: str) -> None:
        file = crew.folder / f"app{len(list(crew.folder.glob('app*.py')))}.py"
        file.write_text(textwrap.dedent(HEAD + code + TAIL.format(workflows=workflows)))
        self.process = subprocess.Popen(
            [sys.executable, file, crew.store, *commands], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def deploy(crew: Crew) -> Iterator[Callable[..., Deploy]]:
    """Deploys a program; all are gone when the test ends."""
    deployed: list[Deploy] = []

    def begin(*args: str) -> Deploy:
        deployed.append(Deploy(crew, *args))
        assert deployed[-1].line() == "up"
        return deployed[-1]

    yield begin
    for one in deployed:
        one.kill()


def parked(crew: Crew, run_id: str) -> None:
    while True:
        try:
            if crew.row(run_id).status is Status.SLEEPING:
                return
        except AssertionError:  # not created yet
            continue


def claimed_by(crew: Crew, run_id: str) -> set[int]:
    return {fields(event.payload)["pid"] for event in crew.events(run_id) if event.kind == Kind.RUN_CLAIMED}


def test_old_runs_go_on_under_the_version_they_began_with_and_new_ones_under_the_new(
    crew: Crew, deploy: Callable[..., Deploy]
) -> None:
    before = deploy(FIRST, "first", "start old first 1")
    parked(crew, "old")
    before.kill()
    both = deploy(
        FIRST + SECOND,
        "first, second",
        "start new second 0",
        "start late first 0.01",
        *map("wait {}".format, WAIT),
    )
    assert both.line() == f"old pid by {before.pid}, old end"
    assert both.line() == f"new pid by {both.pid}, new end"
    assert both.line() == f"old pid by {both.pid}, old end", "whoever names the old version gets it"
    assert {run: crew.row(run).version for run in WAIT} == {"old": "1", "new": "2", "late": "1"}


WAIT = ["old", "new", "late"]


def test_workers_take_only_the_versions_they_have(crew: Crew, deploy: Callable[..., Deploy]) -> None:
    """Both are there, and idle, all the time."""
    old = deploy(FIRST, "first")
    new = deploy(SECOND, "second", "start n1 second 0", "start n2 second 0", "wait n1", "wait n2")
    other = deploy(FIRST + SECOND.replace("new", "third"), "first", "start o1 first 0.01", "wait o1")
    assert {new.line() for _ in range(2)} == {f"new pid by {new.pid}, new end"}
    other.line()
    assert claimed_by(crew, "n1") | claimed_by(crew, "n2") == {new.pid}
    assert claimed_by(crew, "o1") <= {old.pid, other.pid}


def test_a_run_whose_version_no_worker_has_is_listed_and_goes_on_when_it_returns(
    crew: Crew, deploy: Callable[..., Deploy]
) -> None:
    before = deploy(FIRST, "first", "start r first 1")
    parked(crew, "r")
    before.kill()
    after = deploy(SECOND, "second", "start n second 0", "wait n")
    assert after.line() == f"new pid by {after.pid}, new end"
    while not (listed := codeless(crew)):
        pass
    assert listed == ["r"]
    assert crew.row("r").status is Status.SLEEPING
    back = deploy(FIRST, "first", "wait r")
    assert back.line() == f"old pid by {before.pid}, old end"
    assert codeless(crew) == []


def codeless(crew: Crew) -> list[str]:
    """What ``perdure runs --codeless`` lists."""
    command = ["runs", "--codeless", "--json", "--store", crew.store]
    told = CliRunner().invoke(cli, command, prog_name="perdure", catch_exceptions=False)
    assert told.exit_code == 0, told.output
    runs = [json.loads(line) for line in told.stdout.splitlines()]
    assert all(run["codeless"] for run in runs)
    return [run["run_id"] for run in runs]


def test_a_patch_applies_to_what_a_parked_run_has_not_come_to_and_to_new_runs(
    crew: Crew, deploy: Callable[..., Deploy]
) -> None:
    before = deploy(PLAIN, "changing", "start r changing 1")
    parked(crew, "r")
    before.kill()
    during = deploy(PATCHED, "changing", "start new changing 0.01", "wait r", "wait new")
    assert during.line() == "a, checked after, b"
    assert during.line() == "a, checked before, checked after, b"
    assert [event.key for event in crew.events("r") if event.kind == Kind.PATCH_MARKED] == ["@patch[after]"]


def test_a_run_killed_between_two_patches_keeps_both_answers(crew: Crew, deploy: Callable[..., Deploy]) -> None:
    first = deploy(PATCHED, "changing", "start r changing 1")
    parked(crew, "r")
    first.kill()
    second = deploy(PATCHED, "changing", "wait r")
    assert second.line() == "a, checked before, checked after, b"
    second.kill()
    mended = PATCHED.replace('if perdure.patched("before"):', "if True:").replace(
        'if perdure.patched("after"):', "if True:"
    )
    third = deploy(mended, "changing", "start s changing 0.01", "wait r", "wait s")
    assert {third.line(), third.line()} == {"a, checked before, checked after, b"}
