"""Queues, schedules, workers and trouble: shown as they are, and changed, on both stores."""

from __future__ import annotations

import asyncio
import re
import sys
from urllib.parse import quote

import apsw
import pytest

from perdure import Engine, Queue, Rate
from perdure.diagnosis.doctor import doctor
from perdure.model.schedules import ScheduleState
from perdure.store.open import open_store
from tests.web import shop
from tests.web.conftest import CSRF, beside, shown

sqlite = pytest.mark.only("sqlite")


DIES = """
import os, sys
from perdure.model.records import WorkerRow
from perdure.store.open import open_store
from perdure.store.protocol import Route
store = open_store(sys.argv[1], create=False)
row = WorkerRow(77, sys.argv[2], "far", 4, 0, "", "b" * 20, "", store.now(), 60_000_000, 1)
store.register_worker(row, [Route("other", "2", "slow", "elsewhere")])
os._exit(9)
"""
"""A worker that dies as soon as it is there."""


async def until(row, *words):
    while (await row()).status.word not in words:  # noqa: ASYNC110 - the store says when
        await asyncio.sleep(0.005)


def test_a_queue_is_shown_as_it_is_and_paused_for_all_workers(path, browse, tmp_path, monkeypatch):
    monkeypatch.setenv("GATES", str(tmp_path))
    mail = Queue("mail", concurrency=1, rate=Rate(5, "1m"))
    engine = Engine(path, workflows=shop.WORKFLOWS, queues=[mail], only_queues=[mail])

    async def act(browser):
        async with engine:
            first = await engine.enqueue(shop.two, "gate", queue=mail)
            await until(first.row, "running")
            second = await engine.enqueue(shop.sell, shop.Order(), queue=mail)
            told = {one["name"]: one for one in (await browser.json("/queues"))["queues"]}["mail"]
            assert (told["concurrency"], told["running"], told["ready"], told["begun"]) == (1, 1, 1, 1)
            assert told["rate"] == {"runs": 5, "per": 60.0}
            text = " ".join(shown(await browser.page("/queues")).split())
            done = await browser.send("/pause-queue", page="/queues", queue="mail")
            assert "The queue is paused" in await browser.page(done.headers["location"])
            (tmp_path / "gate").touch()
            await first.result(timeout=20)
            assert "mail full 1 of 1 1 – – 1 of 5 in 1 min Pause" in text, text
            assert (await second.row()).status.word == "pending"
            body = {"queue": "mail"}
            answer = await browser.client.post("/api/resume-queue", json=body, **CSRF)
            assert answer.json()["queue"]["paused"] is False
            assert await second.result(timeout=20) == "parcel"
            assert (await browser.client.post("/api/pause-queue", json={}, **CSRF)).status_code == 422
            assert (await browser.client.post("/api/pause-queue", json={"queue": "a/b"}, **CSRF)).status_code == 422

    browse(path, act)


def test_a_schedule_is_shown_paused_triggered_and_removed(path, browse):
    async def act(browser):
        async with Engine(path, workflows=shop.WORKFLOWS) as engine:
            await engine.schedule(
                shop.nap, shop.Order(id="7"), cron="0 9 * * *", tz="Europe/Berlin", key="reports/daily", overlap="queue"
            )
            at = f"/schedules/{quote('reports/daily', safe='')}"
            found = await browser.json("/schedules/reports/daily")
            expected = [one.isoformat() for one in await engine.get_schedule("reports/daily").next(5)]
            assert [one.replace(".000000Z", "+00:00") for one in found["upcoming"]] == expected
            assert found["schedule"]["is_served"]
            assert found["schedule"]["input"]["id"] == "7"
            text = shown(await browser.page(at))
            for told in ("0 9 * * *", "Europe/Berlin", "queue", expected[0][:19].replace("T", " ")):
                assert told in text
            verb = quote("reports/daily", safe="")
            assert "besides its cadence" in await browser.page(f"/trigger-schedule/{verb}")
            made = await browser.send(f"/trigger-schedule/{verb}")
            assert "created by hand" in await browser.page(made.headers["location"])
            (past,) = (await browser.json(at))["history"]
            assert (past["outcome"], made.headers["location"]) == (
                "triggered",
                f"/runs/{quote(past['run_id'], safe='')}?done=triggered",
            )
            await browser.send(f"/pause-schedule/{verb}", page=at)
            assert (await browser.json(at))["schedule"]["status"] == "paused"
            assert "None while it is paused." in await browser.page(at)
            answer = await browser.client.post(f"/api/resume-schedule/{verb}", json={}, **CSRF)
            assert answer.json()["schedule"]["status"] == "active"
            gone = await browser.send(f"/remove-schedule/{verb}")
            assert gone.headers["location"] == "/schedules?done=schedule-removed"
            assert (await browser.json("/schedules"))["schedules"] == []
            assert (await browser.json(at, 404))["error"]["code"] == "schedule_not_found"
            assert (await browser.client.post(f"/api/trigger-schedule/{verb}", json={}, **CSRF)).status_code == 404

    browse(path, act)
    with open_store(path, create=False) as opened:
        assert opened.get_schedule("reports/daily").state == ScheduleState.REMOVED


@sqlite
def test_schedules_come_page_by_page(path, browse):
    async def act(browser):
        async with Engine(path, workflows=shop.WORKFLOWS).client() as engine:
            for number in range(5):
                await engine.schedule(shop.nap, shop.Order(), every="1h", key=f"key {number}")
        keys, after = [], ""
        while after is not None:
            page = await browser.json("/schedules", params={"limit": 2, **({"after": after} if after else {})})
            keys += [one["key"] for one in page["schedules"]]
            after = page["next"]
        assert keys == [f"key {number}" for number in range(5)]

    browse(path, act)


def test_workers_are_shown_with_what_they_serve_and_hold_and_whether_they_live(path, browse, tmp_path, monkeypatch):
    monkeypatch.setenv("GATES", str(tmp_path))

    async def act(browser):
        die = await asyncio.create_subprocess_exec(sys.executable, "-c", DIES, path, shop.EVIL)
        assert await die.wait() == 9
        # Nobody is there to clear it away.
        (dead,) = (await browser.json("/workers"))["workers"]
        assert (dead["name"], dead["life"], dead["holds"]) == (shop.EVIL, "gone", 0)
        assert dead["serves"] == [{"workflow": "other", "version": "2", "queue": "slow", "namespace": "elsewhere"}]
        text = " ".join(shown(await browser.page("/workers")).split())
        assert "process 4 on far gone lock free" in text
        assert "other 2 from queue slow, in elsewhere" in text
        async with Engine(path, workflows=[shop.two], name="alive one") as engine:
            handle = await engine.enqueue(shop.two, "gate", run_id="held/run")
            await until(handle.row, "running")
            async with beside(path, namespace="") as alone:
                (alive,) = (await alone.json("/workers"))["workers"]
            text = await browser.page("/workers")
            (tmp_path / "gate").touch()
            await handle.result(timeout=20)
        assert (alive["name"], alive["life"], alive["holds"]) == ("alive one", "alive", 1)
        assert alive["serves"] == [{"workflow": "two", "version": "1", "queue": "", "namespace": ""}]
        assert 'href="/runs/held%2Frun"' in text

    browse(path, act)


def test_what_is_in_trouble_is_told_with_what_to_do(filled, browse, database):
    async def act(browser):
        with open_store(filled, create=False) as opened:
            row = opened.get_run("naps")
            assert opened.block_run(row.run_key, row.epoch, b'{"reason":"x"}', shop.EVIL)
        found = await browser.json("/trouble")
        text = shown(await browser.page("/trouble"))
        assert [one["run_id"] for one in found["blocked"]] == ["naps"]
        assert found["counts"]["by_status"]["blocked"] == 1
        assert {(one["workflow"], one["runs"]) for one in found["codeless"]} == {("nap", 1)}
        assert {one["key"] for one in found["schedules"]} == {"yearly", f"../{shop.EVIL}"}
        codes = [one["code"] for one in found["report"]["findings"]]
        assert codes == [one.code for one in doctor(filled).findings]
        assert {"runs-blocked", "no-workers"} <= set(codes)
        for one in found["report"]["findings"]:
            assert " ".join(one["advice"].split()) in " ".join(text.split())
        assert found["kind"] == {"sqlite": "SQLite", "postgres": "PostgreSQL"}[database]
        assert found["report"]["schema"]["version"] == found["report"]["schema"]["known"]
        assert "size" in found["report"]["facts"]
        assert "no worker has its code" in text
        assert (await browser.json("/trouble?deep=true"))["deep"]
        async with beside(filled, namespace="other") as alone:
            told = await alone.json("/trouble")
            assert (told["blocked"], told["codeless"], told["report"]["runs"]) == ([], [], None)
            assert told["namespaces"] == ["other"]
            assert "naps" not in await alone.page("/trouble")
        return found["url"]

    url = browse(filled, act)
    assert "password" not in url
    assert re.sub(r"^.*@", "", filled).partition("?")[0] in url


@sqlite
def test_a_store_that_cannot_be_opened_is_examined_all_the_same(path, browse):
    connection = apsw.Connection(path)
    connection.pragma("user_version", 999)
    connection.close()

    async def act(browser):
        assert (await browser.get("/runs")).status_code == 503
        found = await browser.json("/trouble")
        assert found["report"]["findings"][0]["code"] == "schema-newer"
        assert "schema-newer" in await browser.page("/trouble")

    browse(path, act)


def test_each_namespace_has_addresses_of_its_own(path, browse):
    names = ["", "billing", "a/b ~ü"]

    async def act(browser):
        for name in names:
            async with Engine(path, workflows=shop.WORKFLOWS, namespace=name) as engine:
                await until((await engine.enqueue(shop.nap, shop.Order(), run_id="one")).row, "sleeping")
        browser.app.state.reader._listed_at = 0
        await browser.get("/queues")
        text = await browser.page("/runs")
        links = re.findall(r'<a href="([^"]+)"(?: aria-current="true")?>(?:no namespace|billing|a/b ~ü)<', text)
        assert len(links) == 3
        assert links[0] == "/runs"
        for name, link in zip(sorted(names), links, strict=True):
            root = link.removesuffix("/runs")
            (run,) = (await browser.get(f"{root}/api/runs")).json()["runs"]
            assert run["namespace"] == name
            page = await browser.page(link)
            places = set(re.findall(r'<(?:a|form)[^>]* (?:href|action)="([^"#]+)"', page))
            elsewhere = set(links) - {link}
            assert all(one.startswith(f"{root}/") for one in places - elsewhere), places
        billing = links[sorted(names).index("billing")].removesuffix("/runs")
        done = await browser.send(f"{billing}/pause/one")
        assert done.headers["location"] == f"{billing}/runs/one?done=paused"
        assert (await browser.get("/in/nothing/api/runs")).json()["runs"] == []
        for wrong in ("/in//runs", "/in/~x/runs", "/in/a%2Fb/runs", "/in/billing"):
            assert (await browser.get(wrong)).status_code == 404, wrong
        async with beside(path, namespace="") as alone:
            assert (await alone.get("/in/billing/runs")).status_code == 404
            assert "billing" not in await alone.page("/runs")

    browse(path, act)
    with open_store(path, create=False) as opened:
        assert [opened.get_run("one", name).status.word for name in names] == ["sleeping", "paused", "sleeping"]
