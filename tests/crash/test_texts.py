"""O19: whatever a text holds, it comes back as it was or is refused at the call; no run hangs, and no worker dies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Engine, errors
from perdure.model.records import Status
from tests.crash import apps
from tests.crash.procs import Crew, ended

pytestmark = pytest.mark.crash

TEXTS = {
    "nul": "a\x00b",
    "surrogate": "\ud800",
    "literal": "\\u0000 \\x00 %s $1 {} '\"",
    "emoji": "🎉\U0001d518",
    "right-to-left": "\u202e\u05e9\u05dc\u05d5\u05dd\u202c",
}


def test_any_text_is_an_input_a_result_and_a_message_before_and_after_a_crash(crew: Crew) -> None:
    worker = crew.worker()
    refused = []
    for name, text in TEXTS.items():
        try:
            crew.enqueue("echoed", text, name)
        except errors.NotSerializable:
            refused.append(name)
    assert refused in ([], ["surrogate"])
    kept = [name for name in TEXTS if name not in refused]
    crew.ledger.until_said("begin", len(kept), key="wait_at_gate#1")
    worker.kill()
    ended(worker)
    worker = crew.worker()
    crew.ledger.until_said("begin", 2 * len(kept), key="wait_at_gate#1")
    crew.ledger.open_gate(len(kept))
    for name in kept:
        assert list(crew.outcome(name)) == [TEXTS[name]] * 3
    assert worker.is_alive()


def test_a_text_that_a_step_makes_is_kept_or_fails_its_run(crew: Crew) -> None:
    worker = crew.worker()
    for point in (0x00, 0xD800, 0xDFFF, 0xFFFF, 0x10FFFF):
        for name in ("gives_text", "raises_text"):
            run_id = f"{name}-{point}"
            crew.enqueue(name, point, run_id)
            row = crew.all_ended(run_id)[run_id]
            if name == "gives_text" and row.status is Status.COMPLETED:
                assert crew.outcome(run_id) == f"a{chr(point)}b"
            else:
                assert row.status is Status.FAILED
                assert row.reason
    crew.enqueue("short", 1, "next")
    assert crew.outcome("next") == 2
    assert worker.is_alive()


@pytest.mark.parametrize("what", ["run_id", "idempotency_key", "tags", "reason"])
def test_any_text_is_a_name_or_is_refused_at_the_call(crew: Crew, what: str) -> None:
    worker = crew.worker()

    async def call(client: Any, name: str, text: str) -> None:
        if what == "reason":
            handle = await client.enqueue(apps.nap, 60.0)
            await handle.cancel(text)
            with pytest.raises(errors.RunCancelled):
                await handle.result(20)
            kept = (await handle.row()).reason
            assert kept == text or (name in {"nul", "surrogate"} and kept)  # spelt out
            return
        given = {"tags": {"text": text}} if what == "tags" else {what: text}
        handle = await client.enqueue(apps.short, 1, **given)
        assert await handle.result(20) == 2
        again = await client.enqueue(apps.short, 1, **given)
        assert (again.run_id == handle.run_id) is (what != "tags")

    async def main() -> set[str]:
        refused = set()
        async with Engine(crew.store, workflows=apps.WORKFLOWS).client() as client:
            for name, text in TEXTS.items():
                try:
                    await call(client, name, text)
                except (errors.DefinitionError, errors.NotSerializable):
                    refused.add(name)
        return refused

    assert asyncio.run(main()) <= {"nul", "surrogate", "right-to-left"}
    crew.enqueue("short", 1, "next")
    assert crew.outcome("next") == 2
    assert worker.is_alive()
