"""What pages show, and their JSON twins: the same, from either store, wherever the dashboard is mounted."""

from __future__ import annotations

import asyncio
import json
import re
from html import unescape
from shutil import move
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from perdure import Engine
from perdure.model.records import Kind
from perdure.operations.forking import family
from perdure.store.open import open_store
from perdure.web import dashboard
from tests.web import shop
from tests.web.conftest import Browser, apart, shown

sqlite = pytest.mark.only("sqlite")


def events_of(store, run_id):
    with open_store(store, create=False) as opened:
        return opened.read_events(opened.get_run(run_id).run_key)


def test_a_page_and_its_twin_tell_all_there_is_of_a_run(filled, browse):
    async def act(browser):
        failed, asks, parent = [await browser.json(f"/runs/{one}") for one in ("failed", "asks", "parent")]
        text = shown(await browser.page("/runs/failed"))
        assert failed["run"]["status"] == "failed"
        assert [(one["key"], one["status"], one["attempt"]) for one in failed["run"]["steps"]] == [
            ("charge#1", "completed", 1),
            ("reject#1", "failed", 2),
        ]
        assert shop.EVIL in failed["run"]["failure"]["text"]
        assert "in fail" in failed["run"]["failure"]["traceback"]
        assert failed["run"]["steps"][0]["args"]["order"]["card"] == {"number": "4111 1111"}
        spans = {lane["key"]: [span["kind"] for span in lane["spans"]] for lane in failed["timeline"]["lanes"]}
        assert spans == {"charge#1": ["attempt"], "reject#1": ["attempt", "backoff", "attempt"]}
        assert [one["seq"] for one in failed["events"]] == [one.seq for one in events_of(filled, "failed")]
        for told in (
            shop.EVIL,
            "Traceback",
            "in fail",
            "4111 1111",
            "region= eu",
            "run_failed",
            "Attempt 1",
            "hunter2",
        ):
            assert " ".join(told.split()) in " ".join(text.split()), told
        assert [cause["code"] for cause in asks["why"]["causes"]] == ["waits-signal"]
        assert asks["run"]["awaits"] == ["decision"]
        (child,) = parent["children"]
        assert (await browser.json(f"/runs/{quote(child['run_id'])}"))["parent"]["run_id"] == "parent"
        listed = await browser.json("/runs")
        assert {one["run_id"] for one in listed["runs"]} >= {"sold", "failed", "asks", "naps", "parent"}
        return [
            await browser.page(one) for one in ("/runs/asks", f"/runs/{quote(child['run_id'])}", "/runs", "/log/failed")
        ]

    asks, child, listed, log = map(shown, browse(filled, act))
    assert "it waits for the signal 'decision'" in asks
    assert "parent" in child
    assert "no worker has its code" in listed
    assert [int(seq) for seq in re.findall(r"\s(\d+)\s+\d\d:\d\d:\d\d\.\d{3}", log)] == list(
        range(1, len(events_of(filled, "failed")) + 1)
    )


@sqlite
def test_lists_are_filtered_and_paged_and_logs_too(filled, browse):
    async def act(browser):
        pages, after = [], None
        while True:
            page = await browser.json("/runs", params={"limit": 2, **({"after": after} if after else {})})
            pages += [one["run_id"] for one in page["runs"]]
            after = page["next"]
            if after is None:
                break
        assert pages == [one["run_id"] for one in (await browser.json("/runs"))["runs"]]
        assert len(pages) == 7
        for query, expected in (
            ("status=failed", {"failed"}),
            ("status=waiting&status=sleeping&workflow=ask", {"asks"}),
            ("tag=region=eu&workflow=fail", {"failed"}),
            ("workflow=other", set()),
            ("id_prefix=s&created_after=2020-01-01T00:00:00Z&ended_after=2020-01-01", {"sold"}),
            ("error=Rejected", {"failed"}),
            ("created_before=2020-01-01T00:00:00%2B02:00", set()),
        ):
            assert {one["run_id"] for one in (await browser.json(f"/runs?{query}"))["runs"]} == expected
            text = await browser.page(f"/runs?{query}&limit=1&after=&error=")
            assert all(f">{one}<" in text for one in expected)
        found = await browser.json("/runs?status=failed&workflow=fail&window=24h")
        assert found["counts"]["by_workflow"] == {
            "fail": {**dict.fromkeys(found["counts"]["by_status"], 0), "failed": 1}
        }
        buckets = found["traffic"]["buckets"]
        assert (len(buckets), sum(one["failed"] for one in buckets), sum(one["created"] for one in buckets)) == (
            60,
            1,
            1,
        )
        log = await browser.json("/log/sold?after=2&limit=2")
        assert [one["seq"] for one in log["events"]] == [3, 4]
        assert log["next"] == 4
        assert [one["seq"] for one in (await browser.json("/log/sold?before=4&limit=2"))["events"]] == [2, 3]
        assert [one["seq"] for one in (await browser.json("/log/sold?before=1"))["events"]] == []

    browse(filled, act)


@sqlite
def test_what_is_not_there_is_said_with_advice(filled, browse):
    async def act(browser):
        missing = await browser.json("/runs/sol", 404)
        assert missing["error"]["code"] == "run_not_found"
        assert "sold" in missing["error"]["advice"]
        assert "did you mean sold?" in shown(await browser.page("/runs/sol", 404))
        assert (await browser.json("/nothing", 404))["error"]["code"] == "not_found"
        assert (await browser.json("/runs?limit=x", 422))["error"]["code"] == "bad_parameter"
        assert (await browser.json("/runs?status=done", 422))["error"]["advice"].startswith("it is one of pending")
        assert (await browser.get("/")).headers["location"] == "/runs"

    browse(filled, act)


@sqlite
def test_it_works_wherever_it_is_mounted(filled):
    async def main():
        app = Starlette(routes=[Mount("/ops/perdure", dashboard(Engine(filled, workflows=shop.WORKFLOWS)))])
        browser = Browser(app)
        text = await browser.page("/ops/perdure/runs/asks")
        places = set(re.findall(r'(?:href|src|action|data-live)="([^"]+)"', text))
        assert [one for one in places if not one.startswith(("/ops/perdure/", "#"))] == []
        for place in places:
            if not place.startswith(("#", "/ops/perdure/theme", "/ops/perdure/live")):
                assert (await browser.get(unescape(place))).status_code in {200, 307}, place
        done = await browser.send("/ops/perdure/cancel/asks")
        assert done.headers["location"] == "/ops/perdure/runs/asks?done=cancel-asked" or "cancelled" in str(
            done.headers
        )
        dark = await browser.send("/ops/perdure/theme", page="/ops/perdure/runs", to="dark", back="/runs?status=failed")
        assert dark.headers["location"] == "/ops/perdure/runs?status=failed"
        assert "Path=/ops/perdure;" in dark.headers["set-cookie"]

    asyncio.run(main())


@sqlite
def test_a_store_that_is_away_is_said_to_be_and_found_again(filled, tmp_path, browse):
    async def act(browser):
        assert (await browser.get("/runs")).status_code == 200
        move(filled, f"{filled}.away")
        answer = await browser.get("/runs/sold")
        assert answer.status_code == 503
        assert "data-retry" in answer.text
        assert "The store cannot be reached" in answer.text
        assert (await browser.json("/runs", 503))["error"]["code"] in {"store_gone", "store_unreachable"}
        move(f"{filled}.away", filled)
        assert "sold" in await browser.page("/runs")

    browse(filled, act)


def test_a_database_that_dies_and_comes_back(servers, browse):
    server = servers.server()
    url = server.url("outage")
    asyncio.run(_one(url))

    async def act(browser):
        assert "only" in await browser.page("/runs")
        server.kill_hard()
        assert (await browser.get("/runs")).status_code == 503
        assert (await browser.json("/runs/only", 503))["error"]["advice"]
        server.start()
        for _ in range(100):
            if (await browser.get("/runs")).status_code == 200:
                break
            await asyncio.sleep(0.05)
        assert "only" in await browser.page("/runs")

    browse(url, act)


async def _one(url):
    async with Engine(url, workflows=shop.WORKFLOWS) as engine:
        await engine.enqueue(shop.nap, shop.Order(), run_id="only")


@sqlite
def test_a_long_log_is_shown_by_its_end_and_read_on_from_there(path, browse):
    async def act(browser):
        async with Engine(path, workflows=[shop.many], durability="process") as engine:
            await engine.run(shop.many, 700, run_id="long")
            before = await browser.json("/runs/long")
            assert before["counts"]["steps"] == 700
            assert [one["key"] for one in before["run"]["steps"]] == [f"ship#{n}" for n in range(601, 701)]
            assert len(before["events"]) == 100
            text = await browser.page("/runs/long")
            assert "the latest 100 shown" in text
            assert len(text) < 500_000
            assert len((await browser.json("/runs/long?steps=10000"))["run"]["steps"]) == 700
        log = browser.app.state.reader.logs
        (folded,) = log._logs.values()
        assert folded.view.seq == before["counts"]["events"]

    browse(path, act)


@sqlite
def test_values_of_any_size_are_shown_or_to_be_had(path, browse):
    large = {"text": "ü" * 50_000, "deep": json.loads("[" * 100 + "]" * 100)}

    async def act(browser):
        async with Engine(path, workflows=[shop.echo]) as engine:
            await engine.run(shop.echo, large, run_id="large")
            await engine.run(shop.echo, "x" * 60_000, run_id="inline")
        text = await browser.page("/runs/large")
        (seq,) = {one.seq for one in events_of(path, "large") if one.kind == Kind.RUN_COMPLETED}
        assert f'href="/artifacts/large?seq={seq}"' in text
        assert (await browser.get(f"/artifacts/large?seq={seq}")).json() == large
        assert len(await browser.page("/runs/inline")) < 60_000

    browse(path, act)


def test_a_run_shows_the_whole_tree_of_forks_it_is_in(path, browse):
    tree = {"a": "sold", "b": "sold", "a1": "a", "a2": "a", "a11": "a1"}

    async def made():
        async with Engine(path, workflows=shop.WORKFLOWS) as engine:
            await (await engine.enqueue(shop.sell, shop.Order(), run_id="sold")).result(timeout=20)
            for run_id, origin in tree.items():
                await (await engine.get(origin).fork("ship#1", run_id=run_id)).result(timeout=20)

    apart(made())

    async def act(browser):
        for one in ("a1", "sold"):
            told = (await browser.json(f"/runs/{one}"))["family"]
            seen = [(kin["run_id"], kin["depth"]) for kin in told["runs"]]
            assert told["whole"]
            assert dict(seen) == {"sold": 0, "a": 1, "b": 1, "a1": 2, "a2": 2, "a11": 3}
            for run_id, depth in seen[1:]:  # each after what it was forked from, with nothing less deep between
                before = seen[: seen.index((run_id, depth))]
                assert next(name for name, found in reversed(before) if found == depth - 1) == tree[run_id]
            assert {kin["step"] for kin in told["runs"]} == {None, "ship#1"}
        text = " ".join(shown(await browser.page("/runs/a1")).split())
        assert "Forks 6 of one origin" in text

    browse(path, act)
    with open_store(path, create=False) as store:
        for most in range(1, 6):
            kin, is_whole = family(store, store.get_run("a1"), most)
            assert ("a1" in [one.row.run_id for one in kin], len(kin) <= most, is_whole) == (True, True, False)
        assert len(family(store, store.get_run("a1"), 6)[0]) == 6
