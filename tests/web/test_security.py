"""Nobody sees or changes anything who may not, and nothing that runs hold is taken for markup or code."""

from __future__ import annotations

import logging
import re
from html.parser import HTMLParser
from urllib.parse import quote

import pytest

from perdure import Engine
from perdure.errors import DefinitionError
from perdure.store.open import open_store
from perdure.store.protocol import Filter
from perdure.web import Visitor, assets, dashboard
from perdure.web.guarding import LARGEST_BODY
from perdure.web.serving import listen
from tests.web import shop
from tests.web.conftest import Browser
from tests.web.shop import EVIL, EVIL_NAME

TOKEN = "a token nobody guesses"  # noqa: S105 - nobody has it
VERBS = ("cancel", "pause", "resume", "fork", "signal")
RUNS = ["sold", "failed", "asks", "naps", "parent"]
pytestmark = pytest.mark.only("sqlite")


class Tags(HTMLParser):
    """Every element of a page, and its attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def status_of(store, run_id):
    with open_store(store, create=False) as opened:
        return opened.get_run(run_id).status.word


def last_of(store, run_id):
    with open_store(store, create=False) as opened:
        return opened.read_events(opened.get_run(run_id).run_key)[-1]


def test_nothing_that_runs_hold_is_markup(filled, browse):
    evil = f"../../{EVIL}"

    async def act(browser):
        places = ["/runs", *(f"/runs/{one}" for one in RUNS), *(f"/log/{one}" for one in RUNS)]
        places += [f"/{verb}/asks" for verb in VERBS]
        places += [f"/runs/{quote(evil, safe='')}", f"/cancel/{quote(evil, safe='')}"]
        places += ["/queues", "/schedules", "/workers", "/trouble", "/start", f"/start?workflow={quote(EVIL_NAME)}"]
        places += [
            f"/{at}/{quote(f'../{EVIL}', safe='')}" for at in ("schedules", "trigger-schedule", "remove-schedule")
        ]
        places += [f"/many/{verb}?error={quote(EVIL_NAME.split()[0])}&id_prefix={quote(EVIL)}" for verb in VERBS]
        places += [f"/many/cancel?tag={quote('note=' + EVIL.split()[0])}", "/many/fork?workflow=sell"]
        places += ["/runs?" + f"workflow={quote(EVIL)}", f"/signal/asks?signal={quote(EVIL)}"]
        pages = [await browser.page(one) for one in places]
        pages.append(await browser.page(f"/runs/{quote(EVIL, safe='')}", 404))
        pages.append(await browser.page(f"/{quote(EVIL)}", 404))
        pages.append(await browser.page(f"/runs?after={quote(EVIL)}", 422))
        return pages

    pages = browse(Engine(filled, workflows=[*shop.WORKFLOWS, shop.evil]), act)
    assert sum("alert(1)" in page for page in pages) > len(RUNS)
    for page in pages:
        tags = Tags(page).found
        assert [attrs["src"] for tag, attrs in tags if tag == "script"] == ["/static/" + assets.versioned("app.js")]
        assert {tag for tag, _ in tags}.isdisjoint({"img", "iframe", "object", "embed", "style", "base"})
        names = {name for _, attrs in tags for name in attrs}
        assert [name for name in names if name.startswith("on") or name == "style"] == []
        assert "49" not in re.findall(r"\{\{7\*7\}\}|\b49\b(?=</pre>)", page)


def test_every_answer_forbids_scripts_frames_and_guesses(filled, browse):
    async def act(browser):
        places = ["/runs", "/runs/sold", "/runs/nothing", "/api/runs", "/api/runs/nothing", "/artifacts/sold?seq=1"]
        places += ["/static/" + assets.versioned("app.css"), "/static/nothing", "/nothing", "/live/x"]
        answers = [await browser.get(at) for at in places]
        answers.append(await browser.client.post("/cancel/asks"))
        answers.append(await browser.get("/runs", headers={"host": "evil.example"}))
        return answers

    for answer in browse(filled, act):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy or "sandbox" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] in {"no-store", "public, max-age=31536000, immutable"}


def test_downloads_are_never_shown(filled, browse):
    async def act(browser):
        return (
            await browser.get("/artifacts/sold", params={"step": "charge#1", "name": EVIL + ".html"}),
            await browser.get("/artifacts/sold", params={"step": "charge#1", "name": "other"}),
            await browser.get("/artifacts/asks", params={"step": "ship#1", "name": EVIL + ".html"}),
        )

    found, *missing = browse(filled, act)
    assert found.content == b"<script>alert(3)</script>"
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["content-disposition"].startswith("attachment; filename*=UTF-8''%3Cscript%3E")
    assert "sandbox" in found.headers["content-security-policy"]
    assert [one.status_code for one in missing] == [404, 404]


def test_static_files_are_those_of_a_table(filled, browse):
    names = [
        "../settings.py",
        "..%2f..%2fpyproject.toml",
        "app.css",
        "/etc/passwd",
        "%2e%2e/app.py",
        "app.css%00.js",
        ".",
    ]

    async def act(browser):
        return [(await browser.get(f"{at}static/{name}")).status_code for name in names for at in ("/", "/runs/../")]

    assert set(browse(filled, act)) == {404}


def test_no_page_reaches_it_under_a_name_of_its_own(filled, browse):
    evil = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "a@localhost", ""]

    async def act(browser):
        return [(await browser.get("/api/runs", headers={"host": host})).status_code for host in [*evil, "127.1.2.3:8"]]

    assert browse(filled, act) == [421, 421, 421, 421, 421, 200]


def test_without_a_way_to_know_who_asks_only_this_machine_is_answered(filled, browse):
    async def act(browser):
        return [
            await browser.get("/runs", headers={name: "10.0.0.1"})
            for name in ("x-forwarded-for", "forwarded", "x-real-ip", "x-none")
        ]

    assert [one.status_code for one in browse(filled, act)] == [403, 403, 403, 200]
    assert [one.status_code for one in browse(filled, act, client=("10.0.0.1", 1))] == [403] * 4
    with pytest.raises(DefinitionError, match="has to know who asks"):
        dashboard(filled, hosts=["ops.example.com"])
    with pytest.raises(DefinitionError, match="lets any web page"):
        dashboard(filled, hosts=["*"], token=TOKEN)
    with pytest.raises(DefinitionError, match="at least 16"):
        dashboard(filled, token="short")  # noqa: S106 - it is refused
    with pytest.raises(DefinitionError, match="nobody would know who they are"):
        listen("0.0.0.0", 0, knows_who_asks=False)  # noqa: S104 - it is refused


async def change(browser, **headers):
    """Try to cancel, with a good form but for what the headers say."""
    text = await browser.page("/cancel/asks")
    (token,) = set(re.findall(r'name="csrf" value="([^"]+)"', text))
    return await browser.client.post("/cancel/asks", data={"csrf": token}, headers=headers)


def changes_of(app):
    """Where anything is changed, and how."""
    verbs = [route.path for route in app.routes if getattr(route, "methods", None) == {"POST"}]
    assert len(verbs) > 30
    return [one.replace("{run_id:path}", "asks").replace("{key:path}", "yearly") for one in verbs]


def test_every_change_there_is_needs_proof_and_leave(filled, browse):
    def before(store):
        with open_store(store, create=False) as opened:
            rows = [(one.run_id, one.status, one.epoch, one.inbox) for one in opened.list_runs(Filter())]
            return rows, opened.list_queues(), opened.list_schedules()

    async def refuse(browser):
        for at in changes_of(browser.app):
            if at not in {"/logout", "/theme"}:
                full = {"queue": "", "workflow": "nap", "signal": "x", "from_step": "charge#1", "input": {}}
                answers = [await browser.client.post(at, data=full), await browser.client.post(at, json=full)]
                assert [one.status_code for one in answers] == [403, 403], at
                assert "csrf" in answers[0].text, at

    async def only_look(browser):
        token = "t" * 32
        proof = {"headers": {"x-csrf-token": token, "cookie": f"perdure_csrf={token}"}}
        for at in changes_of(browser.app):
            if at not in {"/logout", "/theme"}:
                answer = await browser.client.post(at, json={}, **proof)
                assert answer.status_code == 403, at
                assert "read_only" in answer.text or "only shows" in answer.text or "only look" in answer.text, at
        for at in (
            "/queues",
            "/schedules/yearly",
            "/remove-schedule/yearly",
            "/many/cancel?workflow=nap",
            "/start?workflow=nap",
        ):
            page = await browser.page(at)
            buttons = [
                attrs for tag, attrs in Tags(page).found if tag == "button" and "button" in attrs.get("class", "")
            ]
            assert all("disabled" in one for one in buttons), at

    there = before(filled)
    engine = Engine(filled, workflows=shop.WORKFLOWS)
    browse(engine, refuse)
    browse(engine, only_look, read_only=True)
    browse(engine, only_look, auth=lambda _: Visitor("Eve", read_only=True))
    assert before(filled) == there


def test_changes_are_asked_for_by_its_own_pages_alone(filled, browse):
    async def act(browser):
        text = await browser.page("/cancel/asks")
        (token,) = set(re.findall(r'name="csrf" value="([^"]+)"', text))
        post = browser.client.post
        refused = [
            await post("/cancel/asks"),
            await post("/cancel/asks", data={"reason": "x"}),
            await post("/cancel/asks", data={"csrf": token[::-1]}),
            await post("/api/cancel/asks", json={}),
            await post("/api/cancel/asks", json={}, headers={b"x-csrf-token": b"\xe9" * 32}),
            await change(browser, origin="http://evil.example"),
            await change(browser, origin="null"),
            await change(browser, origin="http://localhost:8080"),
            await change(browser, **{"sec-fetch-site": "cross-site"}),
            await change(browser, **{"sec-fetch-site": "same-site"}),
        ]
        stranger = Browser(browser.app)
        refused.append(await stranger.client.post("/cancel/asks", data={"csrf": token}))
        refused.append(
            await stranger.client.post("/cancel/asks", data={"csrf": ""}, headers={"cookie": "perdure_csrf="})
        )
        assert {one.status_code for one in refused} == {403}
        assert {(await browser.get("/cancel/asks")).status_code} == {200}
        assert (await browser.client.put("/cancel/asks", headers={"x-csrf-token": token})).status_code == 405
        large = await post("/cancel/asks", content=b"x" * (LARGEST_BODY + 1))
        assert large.status_code == 413
        assert status_of(filled, "asks") == "waiting"
        good = await change(browser, origin="http://localhost", **{"sec-fetch-site": "same-origin"})
        assert good.status_code == 303

    browse(filled, act)
    assert status_of(filled, "asks") == "cancelled"


def test_a_dashboard_that_is_read_only_changes_nothing(filled, browse):
    async def act(browser):
        assert "/cancel/asks" not in await browser.page("/runs/asks")
        assert (await change(browser)).status_code == 403
        assert (await browser.send("/theme", page="/runs", to="dark", back="/runs")).status_code == 303

    browse(filled, act, read_only=True)
    browse(filled, act, auth=lambda _: Visitor("Eve", read_only=True))
    assert status_of(filled, "asks") == "waiting"


def test_a_token_is_asked_for_and_its_session_tells_who(filled, browse, caplog):
    caplog.set_level(logging.INFO, "perdure.web")

    async def act(browser):
        asked = await browser.get("/runs/asks?steps=5")
        assert asked.status_code == 303
        assert asked.headers["location"] == "/login?next=%2Fruns%2Fasks%3Fsteps%3D5"
        assert (await browser.json("/runs", 401))["error"]["code"] == "unknown_visitor"
        assert (await browser.json("/runs", 401, headers={"authorization": "Bearer wrong"}))["error"]
        assert (await browser.json("/runs", headers={"authorization": f"Bearer {TOKEN}"}))["runs"]
        assert (await browser.get("/live")).status_code == 303
        assert "asks" not in await browser.page("/login")
        assert (await browser.send("/login", token="wrong")).status_code == 403  # noqa: S106 - it is refused
        for evil in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"):
            stranger = Browser(browser.app)
            answer = await stranger.send("/login?next=" + quote(evil), token=TOKEN)
            assert answer.headers["location"] == "/runs"
        entered = await browser.send(asked.headers["location"], token=TOKEN, name=f"Ada {EVIL}")
        assert entered.headers["location"] == "/runs/asks?steps=5"
        assert "HttpOnly" in entered.headers["set-cookie"]
        assert TOKEN not in entered.headers["set-cookie"]
        assert (await browser.send("/cancel/asks", reason="twice")).status_code == 303
        session = browser.client.cookies["perdure_session"]
        for forged in (session[:-1] + ("A" if session[-1] != "A" else "B"), "x" + session, session.split(".")[0], "."):
            assert (
                await Browser(browser.app).get("/runs", headers={"cookie": f"perdure_session={forged}"})
            ).status_code == 303
        await browser.send("/logout", page="/runs")
        assert (await browser.get("/runs")).status_code == 303

    browse(filled, act, token=TOKEN, hosts=["ops.example.com"], host="ops.example.com", client=("10.0.0.1", 1))
    (line,) = [record.getMessage() for record in caplog.records if "asks" in record.getMessage()]
    assert "Ada" in line
    assert status_of(filled, "asks") == "cancelled"
    assert b"cancelled from the dashboard by Ada" in last_of(filled, "asks").payload


def test_your_own_way_to_know_who_asks(filled, browse):
    async def auth(request):
        return request.headers.get("x-user")

    async def act(browser):
        assert (await browser.get("/runs")).status_code == 401
        assert (await browser.get("/login")).status_code == 401
        browser.client.headers["x-user"] = "Grace"
        assert (await browser.send("/pause/asks")).status_code == 303

    browse(filled, act, auth=auth)
    assert b"paused from the dashboard by Grace" in last_of(filled, "asks").payload
