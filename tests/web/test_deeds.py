"""Who has done what by hand is found in the store afterwards, whichever door they came by, on both stores."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from perdure import Engine
from perdure.cli.main import cli
from perdure.cli.opening import author
from perdure.model.deeds import QUEUE, SCHEDULE, Author, author_of
from perdure.model.records import Kind
from perdure.store.open import open_store
from perdure.web import Visitor
from tests.web import shop
from tests.web.conftest import apart, shown

ADA = Author("dashboard", "ada <ops>")


@pytest.fixture
def perdure(path):
    def perdure(*command):
        done = CliRunner().invoke(cli, [*command, "--store", str(path)], env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return done.stdout

    return perdure


async def begun(path):
    engine = Engine(path, workflows=shop.WORKFLOWS)
    async with engine:
        await engine.schedule(shop.nap, shop.Order(), every="300d", key="yearly")
        done = await engine.enqueue(shop.sell, shop.Order(), run_id="sold")
        await done.result(timeout=20)
    async with engine.client():
        for name in ("web", "shell"):
            await engine.enqueue(shop.ask, shop.Order(), run_id=name, delay="1h")


async def gone_on(path):
    async with Engine(path, workflows=shop.WORKFLOWS) as engine:
        for name in ("web", "shell", "formed"):
            await engine.get(name).resume()
            assert await engine.get(name).result(timeout=20) == "bob"


def test_who_did_it_is_kept_and_shown(path, browse, perdure):
    apart(begun(path))
    value = '{"ok": true, "by": "bob"}'

    async def by_dashboard(browser):
        await browser.send("/signal/web", signal="decision", value=value)
        await browser.send("/pause/web", reason="for lunch")
        await browser.send("/fork/sold", from_step="ship#1", run_id="forked")
        await browser.send("/start?workflow=ask", workflow="ask", run_id="formed", **{"input.id": "1"})
        await browser.send("/signal/formed", signal="decision", value=value)
        await browser.send("/pause/formed")
        await browser.send("/pause-queue", page="/queues", queue="")
        await browser.send("/pause-queue", page="/queues", queue="")  # it is paused, so nothing is done
        for verb in ("pause", "resume"):
            await browser.send(f"/{verb}-schedule/yearly", page="/schedules/yearly")

    settings = {"auth": lambda _: Visitor(ADA.name), "hosts": ["localhost"]}
    browse(Engine(path, workflows=shop.WORKFLOWS), by_dashboard, **settings)
    perdure("signal", "shell", "decision", value)
    perdure("pause", "shell")
    perdure("fork", "sold", "--from", "ship", "--id", "forked too")
    perdure("queues", "resume", "")
    perdure("schedules", "trigger", "yearly")
    perdure("schedules", "remove", "yearly", "--yes")
    apart(gone_on(path))

    me = author()
    with open_store(path, create=False) as store:
        said = {
            name: store.read_events(store.get_run(name).run_key) for name in ("web", "shell", "forked", "forked too")
        }
        queue, schedule = store.list_deeds(QUEUE, ""), store.list_deeds(SCHEDULE)
        assert store.list_deeds(SCHEDULE, None, "elsewhere") == store.list_deeds(QUEUE, "yearly") == []
    assert [(one.what, author_of(one.author)) for one in queue] == [("resumed", me), ("paused", ADA)]
    assert [(one.what, author_of(one.author), one.name) for one in schedule] == [
        ("removed", me, "yearly"), ("triggered", me, "yearly"), ("resumed", ADA, "yearly"), ("paused", ADA, "yearly"),
    ]  # fmt: skip
    assert schedule[1].detail.startswith("yearly@trigger-")
    for name, who in (("web", ADA), ("shell", me), ("forked", ADA), ("forked too", me)):
        (by,) = {
            json.loads(one.args)["by"]
            for one in said[name]
            if one.args and b'"by":' in one.args and b'"by":{' not in one.args
        }
        assert author_of(by) == who
    (paused,) = [json.loads(one.payload)["reason"] for one in said["web"] if one.kind == Kind.RUN_PAUSED]
    assert paused == "paused from the dashboard by ada <ops>: for lunch"

    async def looked_at(browser):
        for at in ("/runs/web", "/log/web"):
            assert ADA.words in shown(await browser.page(at))
        for at in ("/runs/forked", "/runs/formed", "/queues", "/schedules"):
            assert "ada <ops> from the dashboard" in " ".join(shown(await browser.page(at)).split())
        assert (await browser.json("/runs/formed"))["run"]["created_by"] == ADA._asdict()
        assert (await browser.json("/queues"))["deeds"][0]["by"] == me._asdict()
        assert (await browser.json("/schedules"))["deeds"][0]["what"] == "removed"

    browse(path, looked_at)
    assert me.words in perdure("events", "shell")
    assert ADA.words in perdure("show", "formed")
    assert [json.loads(line)["by"]["name"] for line in perdure("queues", "log", "--json").splitlines()] == [
        me.name,
        ADA.name,
    ]
    assert ADA.words in perdure("schedules", "log", "yearly")
