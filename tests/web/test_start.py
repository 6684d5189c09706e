"""Runs that are started by a form: it is made of what the workflow takes, and says what is wrong where it is."""

from __future__ import annotations

import re
from html import unescape

import pytest

from perdure import Engine
from perdure.model import payloads
from perdure.store.open import open_store
from tests.web import shop
from tests.web.conftest import CSRF, shown

sqlite = pytest.mark.only("sqlite")
ALL = {
    "input.name": "Ada",
    "input.count": "3",
    "input.ratio": "",
    "input.urgent": "true",
    "input.colour": '"red"',
    "input.at": "2026-05-01",
    "input.address.street": "Main",
    "input.address.number": "12",
    "input.lines": '["a", "b"]',
    "input.note": "",
}
VALUE = {
    "name": "Ada", "count": 3, "ratio": None, "urgent": True, "colour": "red", "at": "2026-05-01",
    "address": {"street": "Main", "number": 12}, "lines": ["a", "b"], "note": "none",
}  # fmt: skip


def fields(text):
    """What a form holds: by name, as it is shown."""
    found = dict(re.findall(r'<(?:input|textarea)[^>]* name="([^"]+)"[^>]* value="([^"]*)"', text))
    found |= re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>([^<]*)<', text)
    for name, inner in re.findall(r'<select[^>]* name="([^"]+)"[^>]*>(.*?)</select>', text, re.DOTALL):
        chosen = re.findall(r'<option value="([^"]*)" selected', inner) or re.findall(r'<option value="([^"]*)"', inner)
        found[name] = chosen[0]
    return {name: unescape(value) for name, value in found.items()}


def test_a_run_is_started_by_a_form_with_all_kinds_of_fields(path, browse):
    engine = Engine(path, workflows=[*shop.WORKFLOWS, shop.everything])

    async def act(browser):
        at = "/start?workflow=everything"
        empty = fields(await browser.page(at))
        assert set(ALL) <= set(empty)
        assert (empty["input.note"], empty["input.count"]) == ("none", "")
        options = {
            "run_id": "by form",
            "tags": f"note={shop.EVIL[:9]} a=b",
            "priority": "7",
            "delay": "0s",
            "queue": "",
        }
        same = {**empty, **ALL, **options}
        made, again = await browser.send(at, same), await browser.send(at, same)
        assert made.headers["location"] == "/runs/by%20form?done=started"
        assert again.headers["location"] == "/runs/by%20form?done=found"
        nameless = {**empty, **ALL}
        places = {(await browser.send(at, nameless)).headers["location"].partition("?")[0] for _ in range(2)}
        assert len(places) == 1
        body = {"workflow": "everything", "input": VALUE, "run_id": "by program", "tags": {"a": "b"}, "delay": "1h"}
        answer = await browser.client.post("/api/start", json=body, **CSRF)
        assert (answer.json()["done"], answer.json()["run"]["wake_at"] is None) == ("started", False)
        other = await browser.client.post("/api/start", json={**body, "input": {**VALUE, "count": 4}}, **CSRF)
        assert (other.status_code, other.json()["error"]["code"]) == (409, "bad_field")
        async with engine:
            return await engine.get("by form").result(timeout=20)

    assert browse(engine, act).model_dump(mode="json") == VALUE
    with open_store(path, create=False) as opened:
        row = opened.get_run("by form")
        assert (row.priority, payloads.tags_of(row.meta)) == (7, {"note": shop.EVIL[:9], "a": "b"})
        assert (
            opened.read_events(row.run_key, 0, 1)[0].payload
            == opened.read_events(opened.get_run("by program").run_key, 0, 1)[0].payload
        )


@sqlite
def test_what_does_not_fit_is_said_beside_it_and_kept(path, browse):
    wrong = {
        **ALL,
        "input.name": shop.EVIL,
        "input.count": "many",
        "input.address.number": "-1",
        "input.lines": '["a", 2',
        "input.at": "tomorrow",
        "priority": "2000",
        "tags": "what",
        "delay": "soon",
        "run_id": "x",
    }

    async def act(browser):
        at = "/start?workflow=everything&version=1"
        answer = await browser.send(at, {**fields(await browser.page(at)), **wrong})
        assert answer.status_code == 422
        assert wrong.items() <= fields(answer.text).items()
        assert "5 fields do not fit" in answer.text
        names = ["input.count", "input.lines", "priority", "tags", "delay"]
        assert sorted(re.findall(r' name="([^"]+)"[^>]* aria-invalid="true"', answer.text)) == sorted(names)
        for name in names:
            assert re.search(rf'id="{re.escape(name)}-told"><b class="bad">[^<]+', answer.text), name
        right = {**wrong, "input.count": "3", "input.lines": "[]", "priority": "", "tags": "", "delay": ""}
        answer = await browser.send(at, {**fields(await browser.page(at)), **right})
        assert sorted(re.findall(r' name="([^"]+)"[^>]* aria-invalid="true"', answer.text)) == [
            "input.address.number",
            "input.at",
        ]
        body = {"workflow": "everything", "input": {**VALUE, "count": "many"}}
        told = (await browser.client.post("/api/start", json=body, **CSRF)).json()["error"]
        assert (told["code"], told["message"].partition(":")[0]) == ("bad_field", "input.count")
        assert (await browser.client.post("/api/start", json={"workflow": "no"}, **CSRF)).status_code == 404
        return await browser.json("/runs")

    assert browse(Engine(path, workflows=[shop.everything]), act)["runs"] == []


@sqlite
def test_without_the_code_of_a_workflow_it_is_said_that_nothing_can_be_started(path, browse):
    async def act(browser):
        assert "No workflow's code is loaded here" in shown(await browser.page("/start")).replace("\u2019", "'")
        assert "perdure ui MODULE" in await browser.page("/start?workflow=sell", 404)
        assert (await browser.json("/start"))["workflows"] == []

    browse(path, act)

    async def listed(browser):
        assert ">many</a>" in await browser.page("/start")
        (found,) = (await browser.json("/start"))["workflows"]
        assert (found["workflow"], found["schema"]) == ("many", {"type": "integer"})

    browse(path, listed, workflows=[shop.many])
