"""Slots: never is more code under way than there are, whatever is claimed for those that are about to be free."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from perdure.runtime.slots import Slots


@dataclass(eq=False)
class Execution:
    """A run as its slot knows it."""

    run_key: int
    begun: list = field(default_factory=list)


class Worker:
    """What holds runs, and how they come and go."""

    def __init__(self, limit):
        self.limit = limit
        self.slots = Slots(limit, lambda do: do())
        self.begun, self.leaving, self.given_back = set(), set(), set()
        self.number = 0

    def claim(self, at_once=False):
        self.number += 1
        run = Execution(self.number)
        self.slots.take(run, lambda: self.begun.add(run), at_once=at_once)
        return run

    def leave(self, run):
        self.leaving.add(run)
        self.slots.leaves(run)

    def stay(self, run):
        self.leaving.discard(run)
        surplus = self.slots.stays(run)
        if surplus is not None:
            self.given_back.add(surplus)

    def end(self, run):
        for group in (self.begun, self.leaving, self.given_back):
            group.discard(run)
        assert self.slots.left(run)


def test_what_is_claimed_for_a_slot_that_is_about_to_be_free_begins_once_it_is():
    worker = Worker(1)
    first = worker.claim()
    assert worker.begun == {first}
    assert worker.slots.free == 0
    worker.leave(first)
    assert worker.slots.free == 1
    second = worker.claim()
    assert worker.slots.free == 0
    assert worker.begun == {first}
    worker.end(first)
    assert worker.begun == {second}


def test_what_was_claimed_for_a_slot_that_did_not_become_free_is_given_back():
    worker = Worker(2)
    first, second = worker.claim(), worker.claim()
    worker.leave(first)
    third = worker.claim()
    worker.stay(first)
    assert worker.given_back == {third}
    assert worker.begun == {first, second}
    worker.end(second)
    assert worker.begun == {first}  # what is given back does not begin
    worker.end(third)
    assert worker.slots.free == 1


def test_what_is_urgent_needs_no_slot_and_a_run_that_was_claimed_anew_is_another():
    worker = Worker(1)
    first, urgent = worker.claim(), worker.claim(at_once=True)
    assert worker.begun == {first, urgent}
    assert worker.slots.free == -1
    again = Execution(first.run_key)
    worker.slots.take(again, lambda: None, at_once=True)
    assert not worker.slots.left(first)
    assert worker.slots.left(again)


def test_a_run_that_is_claimed_anew_before_its_wait_is_told_keeps_its_slot():
    worker = Worker(1)
    first = worker.claim()
    worker.leave(first)
    worker.slots.take(Execution(first.run_key), lambda: None, at_once=False)
    assert worker.slots.free == 0
    assert not worker.slots.left(first)
    assert worker.slots.free == 0


def test_at_the_end_nothing_waits_for_a_slot():
    worker = Worker(1)
    first = worker.claim()
    worker.leave(first)
    second = worker.claim()
    worker.slots.begin_all()
    assert worker.begun == {first, second}


@given(st.integers(1, 3), st.lists(st.tuples(st.sampled_from(["claim", "leave", "stay", "end"]), st.integers(0, 9))))
def test_no_more_runs_than_there_are_slots_are_under_way(limit, deeds):
    worker = Worker(limit)
    for deed, choice in deeds:
        if deed == "claim":
            if worker.slots.free > 0:
                worker.claim()
            continue
        runs = {
            "leave": worker.begun - worker.leaving,
            "stay": worker.leaving,
            "end": worker.leaving | worker.given_back,
        }[deed]
        ordered = sorted(runs, key=lambda run: run.run_key)
        if ordered:
            getattr(worker, deed)(ordered[choice % len(ordered)])
        assert len(worker.begun) <= limit
        assert len(worker.slots.running) <= 2 * limit
    for run in sorted(worker.leaving | worker.given_back, key=lambda run: run.run_key):
        worker.end(run)
    waiting = set(worker.slots.running.values()) - worker.begun
    assert len(worker.begun) == limit or not waiting
