"""What is done with all runs of a filter: to those that were shown, and to no others."""

from __future__ import annotations

import asyncio
import re
from html import unescape

import pytest

from perdure import Engine
from perdure.errors import StoreError
from perdure.model.records import Kind
from perdure.operations import Runs, Tally
from perdure.store.open import open_store
from perdure.store.protocol import Filter
from perdure.web.jobs import AT_ONCE, Job
from perdure.web.runs import CHOSEN, asked_of
from tests.web import shop
from tests.web.conftest import CSRF, shown


async def enqueue(engine, *names, **tags):
    for name in names:
        await engine.enqueue(shop.nap, shop.Order(), run_id=name, tags=tags)


def statuses(store, *names):
    with open_store(store, create=False) as opened:
        return {name: opened.get_run(name).status.word for name in names}


async def outcome(browser, answer):
    """What the page of a job says once it has ended."""
    assert answer.status_code == 303
    at = answer.headers["location"]
    while (await browser.json(at))["job"]["state"] == "running":  # noqa: ASYNC110 - the page says when
        await asyncio.sleep(0.01)
    return " ".join(shown(await browser.page(at)).split())


def test_what_is_confirmed_is_done_and_nothing_else(path, browse):
    mine, others = [f"mine {number}" for number in range(5)], ["other 0", "other 1"]

    async def act(browser):
        async with Engine(path, workflows=shop.WORKFLOWS).client() as engine:
            await enqueue(engine, *mine, region="eu", note=shop.EVIL[:60])
            await enqueue(engine, *others, region="us")
            listed = await browser.page("/runs?tag=region%3Deu")
            (ask,) = [unescape(one) for one in re.findall(r'href="([^"]+)"', listed) if "/many/cancel" in one]
            text = await browser.page(ask)
            assert "Cancel 5 runs" in shown(text)
            assert "region=eu" in shown(text)
            (place,) = [unescape(one) for one in re.findall(r'action="([^"]+)"', text) if "/many/cancel" in one]
            await enqueue(engine, "late", region="eu")
            assert "5 runs cancelled" in await outcome(browser, await browser.send(place, page=ask, reason="too many"))
            assert "0 runs cancelled" in await outcome(browser, await browser.send(place, page=ask))

    browse(path, act)
    assert set(statuses(path, *mine).values()) == {"cancelled"}
    assert set(statuses(path, *others, "late").values()) == {"pending"}
    with open_store(path, create=False) as opened:
        last = opened.read_events(opened.get_run("mine 3").run_key)[-1]
    assert last.kind == Kind.RUN_CANCELLED
    assert b"cancelled from the dashboard by somebody on this machine: too many" in last.payload


def test_all_of_it_by_a_program_bounded_and_told(filled, browse):
    async def act(browser):
        async def post(at, status=200, **body):
            answer = await browser.client.post(f"/api/many/{at}", json=body, **CSRF)
            assert answer.status_code == status, answer.text
            return answer.json()["tally"] if status == 200 else answer.json()["error"]

        async with Engine(filled, workflows=shop.WORKFLOWS).client() as engine:
            await enqueue(engine, *(f"n{number}" for number in range(4)), many="yes")
        assert await post("pause?tag=many%3Dyes&most=3") == {"done": 3, "unchanged": 0, "failures": [], "more": True}
        assert (await post("resume?tag=many%3Dyes", reason="go"))["done"] == 3
        assert (await post("signal?status=waiting&workflow=ask", signal="any", value=[1], idempotency_key="k"))[
            "done"
        ] == 1
        assert (await post("signal?workflow=ask", signal="any", value=[1], idempotency_key="k"))["unchanged"] == 1
        assert (await post("fork?workflow=fail", from_step="reject"))["done"] == 1
        assert (await post("fork?workflow=fail", from_step="reject"))["unchanged"] == 2
        failed = await post("fork?workflow=sell&status=completed", from_step="nothing")
        assert failed["done"] == 0
        assert {one["code"] for one in failed["failures"]} == {"step_not_found"}
        assert (await post("resume?status=failed&workflow=nap"))["done"] == 0
        for wrong in ("cancel", "cancel?created_before=2030-01-01", "cancel?nonsense=1", "cancel?workflow=nap&most=0"):
            assert await post(wrong, 422)
        assert (await post("signal?workflow=ask", 422))["message"] == "signal is missing"
        assert (await browser.get("/many/cancel")).status_code == 422

    browse(filled, act)
    assert statuses(filled, "n0", "n1", "n2", "n3") == dict.fromkeys(["n0", "n1", "n2", "n3"], "pending")
    with open_store(filled, create=False) as opened:
        resumed = [one for one in opened.read_events(opened.get_run("n3").run_key) if one.kind == Kind.RUN_RESUMED]
        assert b"resumed from the dashboard by somebody on this machine: go" in resumed[0].payload
        assert opened.get_run("failed-from-reject").status.word == "pending"


@pytest.mark.only("sqlite")
def test_what_cannot_be_done_is_said_before(filled, browse):
    async def act(browser):
        text = await browser.page("/many/resume?status=sleeping")
        assert "Resume 0 runs" in shown(text)
        assert "None of these statuses" in text
        assert re.search(r"<button[^>]*primary[^>]* disabled", text)
        assert "Pause 1 run" in shown(await browser.page("/many/pause?status=sleeping&workflow=nap&id_prefix=naps"))

    browse(filled, act)


@pytest.mark.only("sqlite")
def test_a_job_goes_on_by_itself_shows_how_far_it_is_and_is_stopped(path, browse):
    async def act(browser):
        jobs = browser.app.state.reader.jobs
        going, over = asyncio.Event(), asyncio.Event()
        told = []
        asked = asked_of(dict.fromkeys(one.name for one in CHOSEN) | {"workflow": "nap", "status": (), "tag": {}})

        async def work(job):
            tally = Tally()
            while job.watch(tally):
                tally.done += 16
                await going.wait()
                going.clear()
            over.set()
            return tally

        job = Job("first", "", "pause", "ada", 64, asked, 0)
        await jobs.begin(job, work, told.append)
        text = shown(await browser.page("/jobs/first"))
        assert "running" in text
        assert "16 of 64" in text
        going.set()
        await asyncio.sleep(0)
        assert "32 of 64" in shown(await browser.page("/jobs/first"))
        assert (await browser.json("/jobs/first"))["job"]["tally"]["done"] == 32
        stopped = await browser.send("/stop-job/first", page="/jobs/first")
        assert "stopping" in await browser.page(stopped.headers["location"])
        going.set()
        await over.wait()
        await asyncio.sleep(0)
        text = await browser.page("/jobs/first")
        assert "data-going" not in text
        assert "32 runs paused" in " ".join(shown(text).split())
        assert [one.done for one in told] == [32]
        assert (await browser.get("/jobs/unknown")).status_code == 404

        async def fail(job):
            raise StoreError("the disk is full")

        await jobs.begin(Job("second", "", "pause", "ada", 1, asked, 0), fail, told.append)
        assert "the disk is full" in await browser.page("/jobs/second")
        others = [Job(f"n{number}", "", "pause", "ada", 1, asked, 0) for number in range(AT_ONCE)]
        never = asyncio.Event()
        await asyncio.gather(*(jobs.begin(one, lambda _: never.wait(), told.append) for one in others))
        refused = await browser.send("/many/pause?workflow=nap")
        assert (refused.status_code, "under way" in refused.text) == (429, True)

    browse(path, act)  # which ends what is under way


def test_what_is_stopped_leaves_the_rest_alone(path):
    async def main():
        async with Engine(path, workflows=shop.WORKFLOWS).client() as engine:
            await enqueue(engine, *(f"n{number}" for number in range(40)))
            operations = engine._home.operations
            tally = await Runs(operations, Filter(workflow="nap"), watch=lambda tally: tally.done < 32).pause()
            assert (tally.done, tally.more) == (32, True)
            assert (await engine.runs(status="pending").count(), await engine.runs(status="paused").count()) == (8, 32)

    asyncio.run(main())
