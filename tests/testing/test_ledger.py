from __future__ import annotations

import os
import subprocess
import sys

import pytest

import perdure
from perdure import INJECTED, StepContext, step, workflow
from perdure.errors import NotInRun
from perdure.testing import Entry, Ledger, run_to_completion


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return Ledger(tmp_path / "effects" if request.param == "file" else None)


@step
async def works(n: int, *, ctx: StepContext = INJECTED) -> int:
    with ctx.tools.body():
        ctx.tools.effect("mail", ctx.idempotency_key)
        if n == 2:
            raise ValueError(n)
        return n


@workflow
async def two() -> int:
    await works(1)
    try:
        return await works(2)
    except ValueError:
        return 0


def test_bodies_and_effects_are_noted_with_run_key_and_attempt(ledger, tmp_path):
    run_to_completion(two, store=tmp_path / "x.db", tools=ledger, run_id="r")
    first, effect, end, second, *_ = ledger.entries()
    assert first == Entry("begin", "r", "works#1", 1, first.idempotency_key, os.getpid())
    assert effect == first._replace(what="mail")
    assert end == first._replace(what="end")
    assert second.key == "works#2"
    assert second.idempotency_key != first.idempotency_key
    assert ledger.ended("works#2") == []  # it raised
    assert len(ledger.begun()) == 2
    assert len(ledger.effects("mail")) == 2
    assert ledger.effects("letter") == []
    assert ledger.entries(run_id="another") == []
    ledger.clear()
    assert len(ledger) == 0


def test_an_effect_says_whether_it_is_new(ledger):
    assert ledger.effect("charge", "a")
    assert not ledger.effect("charge", "a")
    assert ledger.effect("charge", "b")
    assert ledger.effect("mail", "a")
    assert ledger.effect("log")
    assert ledger.effect("log")
    assert {entry.key for entry in ledger.entries()} == {""}


def test_bodies_are_noted_in_steps_only(ledger):
    with pytest.raises(NotInRun):
        ledger.begin()


def test_processes_share_a_file(tmp_path):
    path = tmp_path / "effects"
    code = "import sys; from perdure.testing import Ledger; [Ledger(sys.argv[1]).effect('x') for _ in range(50)]"
    processes = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(2)]
    assert [process.wait(30) for process in processes] == [0, 0]
    assert len(Ledger(path).effects("x")) == 100
    assert len({entry.pid for entry in Ledger(path).entries()}) == 2


def test_a_line_torn_by_a_crash_is_no_entry(tmp_path):
    ledger = Ledger(tmp_path / "effects")
    ledger.effect("x")
    with ledger.path.open("ab") as file:
        file.write(b'["y", "r"')
    assert [entry.what for entry in ledger.entries()] == ["x"]


def test_nothing_is_written_before_the_first_line(tmp_path):
    ledger = Ledger(tmp_path / "effects")
    assert ledger.entries() == []
    assert not ledger.path.exists()
    assert perdure.testing.Ledger is Ledger
