"""Exactly once, in databases of the user's: processes are killed, frozen past their lease, and cut off at COMMIT.

The ledger that is counted is the user's own table, into which the same entry fits any number of times.
`PERDURE_STORM=1` kills a thousand workers.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from perdure.clock import SystemClock
from perdure.model.records import Kind
from perdure.runtime import points
from tests.crash.procs import Bomb, Count, Crew, ended
from tests.transactional import teller
from tests.transactional.databases import furnish, look, open_database

pytestmark = [pytest.mark.crash, pytest.mark.postgres, pytest.mark.only("sqlite")]
STORM = bool(os.environ.get("PERDURE_STORM"))
CLOCK = SystemClock()
POINTS = (points.BODY, points.TRANSACT, points.TRANSACTED, points.BODY_ENDED, points.COMMIT, points.COMMITTED)
PATIENT = {"crash_cap": 100_000}


class Stop:
    """Freezes its process at the first occurrence of a named point, once it has said so."""

    def __init__(self, point: str, crew: Crew) -> None:
        self.point, self.ledger, self.store = point, crew.ledger, crew.store

    def __call__(self, point: str) -> None:
        if point == self.point:
            self.point = ""
            self.ledger.write("frozen")
            teller.freeze(self.store)


def open_banks(crew: Crew, new_database: Callable[[str], str]) -> list[str]:
    """Two databases that the steps of a crew's processes find."""
    addresses = [new_database("postgres"), new_database("sqlite")]
    for address in addresses:
        furnish(address)
    Path(crew.ledger.file).with_name(teller.PLACE).write_text("\n".join(addresses))
    return addresses


def check(crew: Crew, addresses: list[str], *names: str) -> None:
    """Each transfer happened once; what the log has is what the databases have."""
    for address, step in zip(addresses, ("send", "note"), strict=True):
        found = sorted(entry for (entry,) in look(address, "SELECT entry FROM ledger"))
        assert found == sorted(f"{name}-{n}" for name in names for n in ("1", "again"))
        ((total, there),) = look(
            address, "SELECT sum(balance), sum(CASE name WHEN 'there' THEN balance ELSE 0 END) FROM accounts"
        )
        assert (total, there) == (1000, 2 * len(names))
        committed = look(address, "SELECT run, step, outcome FROM perdure_steps WHERE outcome IS NOT NULL")
        rows = sorted((run, key, bytes(outcome)) for run, key, outcome in committed)
        logged = [
            (name, event.key, event.payload)
            for name in names
            for event in crew.events(name)
            if event.kind == Kind.STEP_COMPLETED and (event.key or "").startswith(step)
        ]
        assert rows == sorted(logged)


def test_a_process_dies_at_every_point_of_a_transaction_and_each_transfer_happens_once(
    tmp_path: Path, made_store: Callable[[], str], new_database: Callable[[str], str]
) -> None:
    learning = Crew(tmp_path / "learn", made_store())
    open_banks(learning, new_database)
    assert ended(learning.script("banking", "r", "r", reached=Count(learning.ledger))) == 0
    said = [entry.key for entry in learning.ledger.entries("point")]
    learning.close()
    assert said.count(points.TRANSACT) == said.count(points.TRANSACTED) == 4
    cases = [(point, n) for point in POINTS for n in _times(said.count(point), point)]
    crews = [Crew(tmp_path / f"{point}-{n}", made_store()) for point, n in cases]
    banks = [open_banks(crew, new_database) for crew in crews]
    first = [crew.script("banking", "r", "r", reached=Bomb(*case)) for crew, case in zip(crews, cases, strict=True)]
    died = [ended(process) == -signal.SIGKILL for process in first]
    second = [crew.script("banking", "r", "r") for crew in crews]
    for process, crew, bank, case in zip(second, crews, banks, cases, strict=True):
        assert ended(process) == 0
        said = [entry.key for entry in crew.ledger.entries("result")]
        assert said[-1] == repr(teller.expected("r")), case
        check(crew, bank, "r")
        crew.close()
    sure = [case for case in cases if case[0] not in {points.COMMIT, points.COMMITTED}]
    assert [case for case, dead in zip(cases, died, strict=True) if not dead and case in sure] == []


def _times(seen: int, point: str) -> list[int]:
    if STORM:
        return list(range(1, seen + 1))
    return [1, seen] if point in {points.TRANSACT, points.TRANSACTED} else [(seen + 1) // 2]


@pytest.mark.timeout(1800 if STORM else 60)
def test_workers_are_killed_at_any_moment_and_each_transfer_happens_once(
    crew: Crew, new_database: Callable[[str], str]
) -> None:
    bank = open_banks(crew, new_database)
    kills, chance = 1000 if STORM else 12, Random(7)  # noqa: S311 - not for secrets
    names: list[str] = []
    for n in range(kills):
        if n % 8 == 0:
            fresh = [f"r{n}-{k}" for k in range(10)]
            names += fresh
            for name in fresh:
                crew.enqueue("banking", name, name)
        worker = crew.worker(concurrency=8, **PATIENT)
        time.sleep(chance.random() * 0.12)
        worker.kill()
        ended(worker)
        crew.processes.remove(worker)
        if len(names) > 400:  # there is no more money in the account than that
            _finish(crew, bank, names)
            for address in bank:
                _pay_in(address)
            names.clear()
    _finish(crew, bank, names)
    begun = [(one.run, one.key, one.attempt) for one in crew.ledger.entries("begin")]
    sys.stderr.write(f"{kills} kills, {len(begun) - len(set(begun))} bodies began again\n")


def _finish(crew: Crew, bank: list[str], names: list[str]) -> None:
    worker = crew.worker(concurrency=8, **PATIENT)
    assert {row.status.name for row in crew.all_ended(*names, timeout=200.0).values()} == {"COMPLETED"}
    check(crew, bank, *names)
    worker.kill()
    ended(worker)
    crew.processes.remove(worker)


def _pay_in(address: str) -> None:
    with closing(open_database(address)) as connection:
        connection.execute("DELETE FROM ledger")
        connection.execute("DELETE FROM perdure_steps")
        connection.execute("UPDATE accounts SET balance = CASE name WHEN 'here' THEN 1000 ELSE 0 END")


@pytest.mark.slow
def test_a_holder_that_was_frozen_past_its_lease_and_wakes_up_does_nothing_a_second_time(
    tmp_path: Path, made_store: Callable[[], str], new_database: Callable[[str], str]
) -> None:
    places = (points.BODY, "gate", points.TRANSACT)
    cases = [(place, which) for place in places for which in ("sending", "noting")]
    crews = [Crew(tmp_path / f"{place}-{which}", made_store()) for place, which in cases]
    banks = [open_banks(crew, new_database) for crew in crews]
    frozen = [crew.worker(reached=Stop(place, crew), up=False) for (place, _), crew in zip(cases, crews, strict=True)]
    for (place, which), crew in zip(cases, crews, strict=True):
        if place == "gate":
            Path(crew.ledger.file).with_name(teller.FREEZE).write_text(crew.store)
        crew.enqueue(which, "x", "r")
    for (place, _), crew, process in zip(cases, crews, frozen, strict=True):
        if place == points.TRANSACT:
            crew.ledger.until_said("begin", pid=process.pid)
            crew.ledger.open_gate()
        crew.ledger.until_said("frozen", pid=process.pid)
    for crew in crews:
        crew.worker(up=False)
    for (place, which), crew, bank, process in zip(cases, crews, banks, frozen, strict=True):
        _until(lambda crew=crew: "run_reclaimed" in crew.kinds("r") or crew.kinds("r").count("run_claimed") > 1)
        if place == points.BODY:  # the other has nobody in its way
            crew.ledger.until_said("begin")
            crew.ledger.open_gate()
            assert crew.outcome("r") == "x"
        os.kill(process.pid or 0, signal.SIGCONT)
        if place == "gate":
            crew.ledger.open_gate(2)
        assert crew.outcome("r") == "x", (place, which)
        address = bank[which == "noting"]
        assert look(address, "SELECT entry FROM ledger") == [("x",)], (place, which)
        ((done,),) = look(address, "SELECT outcome FROM perdure_steps")
        (completed,) = [event for event in crew.events("r") if event.kind == Kind.STEP_COMPLETED]
        assert completed.payload == bytes(done)
    for crew in crews:
        crew.close()


@pytest.mark.parametrize("which", ["sending", "noting"])
def test_who_wakes_up_after_the_step_has_failed_elsewhere_commits_nothing(
    crew: Crew, new_database: Callable[[str], str], which: str
) -> None:
    address = open_banks(crew, new_database)[which == "noting"]
    decline = Path(crew.ledger.file).with_name(teller.DECLINE)
    frozen = crew.worker(reached=Stop(points.BODY, crew))
    crew.enqueue("deciding", which, "r")
    crew.ledger.until_said("frozen", pid=frozen.pid)
    decline.touch()
    other = crew.worker()
    assert crew.outcome("r") == "declined"
    other.kill()
    ended(other)
    decline.unlink()
    os.kill(frozen.pid or 0, signal.SIGCONT)
    crew.enqueue("short", 1, "next")  # by when it is done, the woken one has done whatever it does
    assert crew.outcome("next") == 2
    _until(lambda: "taken for dead" in crew.log(frozen))
    assert look(address, "SELECT entry FROM ledger") == []
    assert not crew.ledger.entries("begin", pid=frozen.pid, run="r")


def test_a_step_that_was_cancelled_but_had_committed_when_its_process_died_is_recorded_as_completed(
    crew: Crew, new_database: Callable[[str], str]
) -> None:
    _, address = open_banks(crew, new_database)
    first = crew.script("impatient", "x", "r", reached=Bomb(points.TRANSACTED, 1))
    crew.ledger.until_said("begin", pid=first.pid)
    _until(lambda: "timer_fired" in crew.kinds("r"))
    crew.ledger.open_gate()
    assert ended(first) == -signal.SIGKILL
    assert ended(crew.script("impatient", "x", "r")) == 0
    assert look(address, "SELECT entry FROM ledger") == [("x",)]
    assert crew.kinds("r")[-2:] == ["step_completed", "run_completed"]
    assert len(crew.ledger.entries("begin")) == 1


def _until(is_so: Callable[[], bool]) -> None:
    begun = CLOCK.monotonic()
    while not is_so():
        assert CLOCK.monotonic() < begun + 40
        time.sleep(0.05)
