"""The demonstration: it proves what it says, and notices when that is not so."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.only("sqlite")  # what they are about is not the store


def test_the_demonstration_proves_its_promise_when_piped_and_leaves_it_to_be_looked_at(start, perdure, tmp_path):
    kept = tmp_path / "kept"
    child = start("demo", "--keep", kept)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (0, "")
    assert "✗" not in out
    assert "\x1b" not in out
    assert "fast-a was not scored again        1 heartbeat before the kill, 0 after" in out
    assert "run_reclaimed" in out
    assert "1 step kept, not run again" in out
    assert "the code arrives at the recorded result" in out
    beats = re.findall(r"pid (\d+)  heartbeat (\S+), attempt (\d+), key (\w+)", out)
    assert [step for _, step, _, _ in beats].count("score[fast-a]") == 1
    slow = [beat for beat in beats if beat[1] == "score[slow-b]"]
    assert len({pid for pid, *_ in slow}) == 2
    assert len({beat[1:] for beat in slow}) == 1
    assert f"perdure show review-demo --store {kept / 'perdure.db'}" in out
    assert (
        "1 step of earlier claims, not run again by the last" in perdure("show", "review-demo", "--store", kept).stdout
    )
    assert perdure("demo", "--keep", kept).exit_code == 2


def test_a_store_lost_between_the_two_calls_makes_the_proof_fail(start):
    child = start("demo", "--forget")
    out, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (1, "")
    assert "✗  fast-a was not scored again" in out
    assert "✗  … with the same idempotency key" in out
    assert "✓  the result is right" in out
