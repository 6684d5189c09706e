"""What is done with runs from the dashboard, by form and by program, on both stores."""

from __future__ import annotations

import asyncio
import re

import pytest

from perdure import Engine
from perdure.model import payloads
from perdure.model.records import InboxKind, Kind
from perdure.store.open import open_store
from tests.web import shop
from tests.web.conftest import CSRF, shown


def row_of(store, run_id):
    with open_store(store, create=False) as opened:
        return opened.get_run(run_id)


def test_a_run_is_stopped_resumed_forked_and_told_by_form(filled, browse):
    async def act(browser):
        paused = await browser.send("/pause/naps", reason="for lunch")
        assert paused.headers["location"] == "/runs/naps?done=paused"
        text = shown(await browser.page(paused.headers["location"]))
        assert "The run is paused." in text
        assert "it was paused: paused from the dashboard by somebody on this machine: for lunch" in text
        assert row_of(filled, "naps").status.word == "paused"
        await browser.send("/resume/naps")
        assert row_of(filled, "naps").status.word == "pending"

        forked = await browser.send("/fork/failed", from_step="reject#1", run_id="again", keep_keys="on")
        assert forked.headers["location"] == "/runs/again?done=forked"
        again = await browser.json("/runs/again")
        assert again["run"]["forked_from"] == {"run_id": "failed", "step": "reject#1", "seq": 6, "keep_keys": True}

        cancelled = await browser.send("/cancel/naps", force="on")
        assert "The run is cancelled." in await browser.page(cancelled.headers["location"])
        late = await browser.send("/cancel/failed", reason="late")
        assert late.status_code == 409
        assert "wrong_state" in late.text
        assert "cannot be cancelled now" in await browser.page("/cancel/failed")
        assert 'class="flash"' not in await browser.page("/runs/naps?done=nonsense")

    browse(filled, act)


def test_signals_have_forms_where_their_code_is_loaded_and_are_sent_once(filled, browse):
    async def act(browser):
        text = await browser.page("/signal/asks")
        assert re.findall(r'name="value\.(\w+)"', text) == ["ok", "by", "level"]
        assert "Who decides" in text
        (key,) = re.findall(r'name="idempotency_key" value="([^"]+)"', text)
        wrong = {"signal": "decision", "value.ok": "true", "value.by": "Ada", "value.level": "many"}
        assert (await browser.send("/signal/asks", wrong)).status_code == 422
        good = {**wrong, "value.level": "3", "idempotency_key": key}
        first, second = await browser.send("/signal/asks", good), await browser.send("/signal/asks", good)
        assert first.headers["location"] == "/runs/asks?done=signalled"
        assert second.headers["location"] == "/runs/asks?done=signalled-before"
        free = await browser.send("/signal/asks", signal="other", value='{"any": ["json"]}')
        assert free.headers["location"] == "/runs/asks?done=signalled"
        assert (await browser.send("/signal/asks", signal="other", value="{")).status_code == 422

    browse(Engine(filled, workflows=shop.WORKFLOWS), act)

    async def go_on():
        async with Engine(filled, workflows=shop.WORKFLOWS) as engine:
            return await engine.get("asks").result(timeout=20)

    assert asyncio.run(go_on()) == "Ada"
    with open_store(filled, create=False) as opened:
        events = opened.read_events(opened.get_run("asks").run_key)
    assert [one.payload for one in events if one.kind == Kind.SIGNAL_RECEIVED] == [b'{"ok":true,"by":"Ada","level":3}']


@pytest.mark.only("sqlite")
def test_the_same_by_a_program(filled, browse):
    async def act(browser):
        async def post(at, status, **body):
            answer = await browser.client.post(f"/api{at}", json=body, **CSRF)
            assert answer.status_code == status, answer.text
            return answer.json()

        assert (await post("/pause/naps", 200, reason="x"))["run"]["status"] == "paused"
        assert (await post("/resume/naps", 200))["done"] == "resumed"
        assert (await post("/resume/naps", 409))["error"]["code"] == "wrong_state"
        assert (await post("/fork/failed", 200, from_step="charge"))["run"]["workflow"] == "fail"
        assert "charge#1" in (await post("/fork/failed", 404, from_step="other"))["error"]["advice"]
        assert (await post("/fork/failed", 422))["error"]["code"] == "bad_field"
        assert (await post("/signal/asks", 200, signal="any", value={"a": [1]}))["done"] == "signalled"
        assert (await post("/signal/asks", 422, signal="a/b"))["error"]["code"] == "definition"
        assert (await post("/cancel/naps", 422, reason="x", hard=True))["error"]["code"] == "unknown_field"
        assert (await post("/cancel/naps", 422, force="yes"))["error"]["code"] == "bad_field"
        assert (await post("/cancel/nobody", 404))["error"]["code"] == "run_not_found"
        text = await browser.client.post(
            "/api/cancel/naps", content="x", headers={"content-type": "text/plain", **CSRF["headers"]}
        )
        assert text.status_code == 415

    browse(filled, act)
    with open_store(filled, create=False) as opened:
        (news,) = opened.standing(opened.get_run("asks").run_key).news
        assert (news.kind, news.name) == (InboxKind.SIGNAL, "any")


@pytest.mark.only("sqlite")
def test_what_drift_was_found_is_shown_side_by_side(filled, browse):
    from perdure import step, workflow

    @step(name="charge")
    async def other(order: shop.Order, *, twice: bool) -> dict[str, object]:
        return {}

    @workflow(name="ask")
    async def ask(order: shop.Order) -> str:
        await other(order, twice=True)
        return ""

    async def drift():
        async with Engine(filled, workflows=[ask]) as engine:
            await engine.get("asks").signal("decision", {"ok": True, "by": "Ada"})
            while (await engine.get("asks").row()).status.word != "blocked":  # noqa: ASYNC110 - the store says when
                await asyncio.sleep(0.005)

    asyncio.run(drift())

    async def act(browser):
        (found,) = (await browser.json("/runs/asks"))["run"]["refusals"]
        text = shown(await browser.page("/runs/asks"))
        assert found["code"] == "drift"
        for part in ("Drift found by build", "Recorded", "Found", found["recorded"], found["found"]):
            assert " ".join(str(part).split()) in " ".join(text.split())
        assert "it is blocked" in text

    browse(filled, act)
    assert payloads.fields(b"{}") == {}
