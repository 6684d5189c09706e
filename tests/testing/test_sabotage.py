"""The explorer finds faults of Perdure itself, too: here stores make it break its promises, one at a time."""

from __future__ import annotations

import os
import re

import pytest

from perdure import workflow
from perdure.model import chain
from perdure.model.records import Kind, Verdict
from perdure.store.open import open_store
from perdure.testing import UnsafeWorkflow, explore_crashes
from tests.testing import planted
from tests.wrapper import Wrapper


class Forgetful(Wrapper):
    """Acknowledges a commit and does not write it: the second step's of the third run."""

    count = 0

    def commit(self, items, **options):
        if any(event.kind == Kind.STEP_COMPLETED for item in items for event in item.events):
            self.count += 1
            if self.count == 8:
                return [Verdict.APPLIED] * len(items)
        return self.inner.commit(items, **options)


class Doctor(Wrapper):
    """After a crash, gives whoever claims the run a log that was tampered with, seals and all."""

    hidden: tuple[Kind, ...] = ()
    uid = None

    def claim_runs(self, *args, **options):
        return [self.doctored(claim) for claim in self.inner.claim_runs(*args, **options)]

    def doctored(self, claim):
        if Kind.RUN_RECLAIMED not in [event.kind for event in claim.events]:
            return claim
        row = claim.row if self.uid is None else claim.row._replace(uid=self.uid)
        events, link = [], chain.genesis(row.uid)
        for event in claim.events:
            kind = Kind.PROGRESS if event.kind in self.hidden else event.kind
            events.append(chain.seal(link, *event._replace(kind=kind)[:-1]))
            link = events[-1].hash
        return claim._replace(row=row, events=events)


class HidesOutcomes(Doctor):
    hidden = (Kind.STEP_COMPLETED,)


class HidesFailures(Doctor):
    hidden = (Kind.STEP_FAILED,)


class HidesBeginnings(Doctor):
    hidden = (Kind.STEP_STARTED,)


class ChangesKeys(Doctor):
    uid = os.urandom(16)


@workflow
async def three(n: int) -> int:
    for _ in range(3):
        n = await planted.add(n, 1)
    return n


@workflow
async def retrying(n: int) -> int:
    return await planted.stubborn(n)


@pytest.mark.parametrize(
    ("sabotage", "workflow", "said"),
    [
        (Forgetful, three, r"add#2 began again although its step_completed had been committed"),
        (HidesOutcomes, three, r"add#1 began again although its step_completed had been committed"),
        (HidesFailures, retrying, r"stubborn#1 began as attempt 1, but attempt 2 was due"),
        (HidesBeginnings, planted.shoots_once, r"shoots#1 began again although it is to begin at most once"),
        (ChangesKeys, three, r"add#1 began with the idempotency key \w+, but it had \w+ before"),
    ],
)
def test_a_broken_promise_is_found(sabotage, workflow, said, tmp_path):
    def store(clock):
        return sabotage(open_store(tmp_path / "x.db", durability="process", clock=clock))

    with pytest.raises(UnsafeWorkflow) as caught:
        explore_crashes(workflow, 1, store=store, timeout=2)
    assert re.search(said, str(caught.value.report))


def test_a_store_that_breaks_no_promise_is_found_sound(tmp_path):
    def store(clock):
        return Doctor(open_store(tmp_path / "x.db", durability="process", clock=clock))

    assert explore_crashes(three, 1, store=store).safe
