"""The dashboard in a real browser, with real workers that are killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest
from playwright.sync_api import expect, sync_playwright

from perdure import Engine
from perdure.store.open import open_store
from tests.house import tree
from tests.web import shop
from tests.web.conftest import apart

pytestmark = [pytest.mark.only("sqlite"), pytest.mark.slow]
PATIENCE = 15_000
CONTRAST = 4.5


@pytest.fixture
def chromium():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found is not None, "these tests need Chromium: apt install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium, start):
    """A tab in which nothing may go wrong: no error, no violation of the policy."""
    context = chromium.new_context(viewport={"width": 1360, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.faults = []
    page.on("console", lambda message: message.type in {"error", "warning"} and page.faults.append(message.text))
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    yield page
    faults = page.faults
    context.close()
    assert faults == []


@pytest.fixture
def start(tmp_path):
    """Start a command of Perdure's in a process of its own; what is still running is killed at the end."""
    children = []

    def begin(*command):
        environ = {**os.environ, "PYTHONPATH": str(tree.PACKAGE.parent), "GATES": str(tmp_path)}
        child = subprocess.Popen(
            [sys.executable, "-m", "perdure", *command], cwd=tree.ROOT, env=environ, stderr=subprocess.PIPE, text=True
        )
        children.append(child)
        return child

    yield begin
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def serve(start):
    """Serve a store's dashboard; returns its address."""

    def serve(store, *options):
        child = start("ui", "--port", "0", "--store", store, *options)
        line = child.stderr.readline()
        assert "the dashboard of" in line, line + child.stderr.read()
        threading.Thread(target=child.stderr.read, daemon=True).start()
        return line.split(" is at ")[1].strip().rstrip("/"), child

    return serve


def test_a_run_is_followed_while_its_worker_is_killed_and_another_goes_on(path, tab, serve, start, tmp_path):
    address, _ = serve(path)
    worker = ("worker", "tests.web.shop:two", "--store", path)
    first = start(*worker)
    apart(enqueue(path, "gate", "watched"))
    tab.goto(f"{address}/runs/watched")
    status = tab.locator("#head .title .status")
    expect(status).to_have_text("running", timeout=PATIENCE)
    expect(tab.locator('[data-key="wait_for_gate#1"] .status')).to_have_text("running", timeout=PATIENCE)
    summary = tab.locator('[data-key="ship#1"] summary').first
    summary.focus()
    tab.keyboard.press("Enter")
    expect(tab.locator('[data-key="ship#1"]')).to_have_attribute("open", "")
    assert (tmp_path / "effects").read_text() == "gate\n"

    first.send_signal(signal.SIGKILL)
    first.wait()
    expect(tab.locator(".why")).to_contain_text("is gone", timeout=PATIENCE)
    start(*worker)
    expect(tab.locator('[data-key="wait_for_gate#1"] .status')).to_have_text("running", timeout=PATIENCE)
    expect(tab.locator(".why")).to_contain_text("executes it", timeout=PATIENCE)
    (tmp_path / "gate").touch()
    expect(status).to_have_text("completed", timeout=PATIENCE)
    expect(tab.locator("#log")).to_contain_text("run_completed")
    expect(tab.locator("#log")).to_contain_text("run_reclaimed")
    expect(tab.locator('[data-key="ship#1"]')).to_have_attribute("open", "")
    expect(summary).to_be_focused()
    assert (tmp_path / "effects").read_text() == "gate\ngate\n"
    assert tab.locator("#announce").text_content() == "The run is now completed"


async def enqueue(path, name, run_id):
    engine = Engine(path, workflows=[shop.two])
    async with engine.client():
        await engine.enqueue(shop.two, name, run_id=run_id)


def test_it_is_worked_by_the_keyboard_alone(filled, tab, serve):
    address, _ = serve(filled)
    tab.goto(f"{address}/runs")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to content"
    tab.keyboard.press("/")
    assert tab.evaluate("document.activeElement.name") == "workflow"
    tab.keyboard.type("ask")
    tab.keyboard.press("Enter")
    expect(tab.locator("tbody tr")).to_have_count(1)
    walk(tab, "asks")
    tab.keyboard.press("Enter")
    expect(tab.locator("h1")).to_have_text("asks")
    walk(tab, "Cancel…")
    tab.keyboard.press("Enter")
    expect(tab.locator("h1")).to_have_text("Cancel asks")
    assert tab.evaluate("document.activeElement.name") == "reason"
    tab.keyboard.type("by keyboard")
    walk(tab, "Cancel the run")
    tab.keyboard.press("Enter")
    expect(tab.locator(".flash")).to_be_visible()
    expect(tab.locator(".why")).to_contain_text("by keyboard")


def test_many_runs_are_cancelled_while_a_worker_executes_some_of_them(path, tab, serve, start, tmp_path):
    address, _ = serve(path)
    mine = [f"mine-{number}" for number in range(12)]
    apart(enqueue_all(path, [*mine[:3], "other"], [*mine[3:], "spared"]))
    start("worker", "tests.web.shop:two", "--store", path, "--concurrency", "100")
    tab.goto(f"{address}/runs?id_prefix=mine")
    expect(tab.locator("tbody .status.running")).to_have_count(3, timeout=PATIENCE)
    tab.get_by_role("link", name="Cancel…").click()
    expect(tab.locator("h1")).to_have_text("Cancel 12 runs")
    apart(enqueue_all(path, [], ["mine-late"]))
    tab.get_by_label("Reason").fill("a mistake")
    tab.get_by_role("button", name="Cancel 12 runs").click()
    expect(tab.locator(".tally")).to_have_text("12 runs cancelled, or asked to.")
    tab.get_by_role("link", name="To the runs").click()
    expect(tab.locator("tbody .status.cancelled")).to_have_count(12, timeout=PATIENCE)
    tab.get_by_role("link", name="Clear").click()
    for name, status in (("other", "running"), ("spared", "pending"), ("mine-late", "pending")):
        expect(tab.locator("tr", has_text=name).locator(".status")).to_have_text(status)
    (tmp_path / "other").touch()
    expect(tab.locator("tr", has_text="other").locator(".status")).to_have_text("completed", timeout=PATIENCE)


async def enqueue_all(path, executed, asleep):
    engine = Engine(path, workflows=shop.WORKFLOWS)
    async with engine.client():
        for name in executed:
            await engine.enqueue(shop.two, name, run_id=name)
        for name in asleep:
            await engine.enqueue(shop.nap, shop.Order(), run_id=name, delay="1h")


def test_a_run_is_started_by_the_keyboard_alone_and_executed(path, tab, serve, start):
    address, _ = serve(path, "tests.web.shop")
    start("worker", "tests.web.shop", "--store", path)
    tab.goto(f"{address}/runs")
    walk(tab, "Start a run…")
    tab.keyboard.press("Enter")
    expect(tab.locator("h1")).to_have_text("Start a run")
    walk(tab, "everything")
    tab.keyboard.press("Enter")
    expect(tab.locator("h1")).to_have_text("Start everything")
    typed = {"name": "Ada", "count": "many", "at": "2026-05-01", "address.street": "Main", "address.number": "12"}
    fill_in(tab, {**typed, "lines": '["a"]'})
    tab.keyboard.press("Enter")
    expect(tab.locator("#input\\.count-told")).to_contain_text("it is no whole number")
    assert tab.input_value("[name='input.name']") == "Ada"
    tab.faults[:] = [one for one in tab.faults if "status of 422" not in one]
    fill_in(tab, {"count": "3"})
    tab.keyboard.press("Enter")
    expect(tab.locator(".flash")).to_be_visible()
    expect(tab.locator("#head .title .status")).to_have_text("completed", timeout=PATIENCE)
    expect(tab.locator("main")).to_contain_text('"street": "Main"')


def fill_in(tab, texts):
    """Type into fields of an input, by Tab from one to the next; the last of them is one where Enter sends."""
    left = {f"input.{name}": text for name, text in texts.items()}
    for _ in range(60):
        name = tab.evaluate("document.activeElement.name || ''")
        if name in left:
            tab.keyboard.press("Control+A")
            tab.keyboard.type(left.pop(name))
        if not left and tab.evaluate("document.activeElement.tagName") == "INPUT":
            return
        tab.keyboard.press("Tab")
    pytest.fail(f"Tab does not lead to {list(left)}")


def walk(tab, text):
    """Press Tab until what has the focus says this; each stop can be seen to have it."""
    for _ in range(60):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.textContent").strip() == text:
            assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
            return
    pytest.fail(f"Tab does not lead to {text!r}")


def test_all_that_is_written_can_be_read_in_either_colours(filled, tab, serve):
    address, _ = serve(filled, "tests.web.shop")
    for scheme, other in (("light", "dark"), ("dark", "light")):
        tab.emulate_media(color_scheme=other)
        check_colours(tab, address, scheme)


def check_colours(tab, address, scheme):
    tab.goto(f"{address}/runs")
    tab.get_by_role("button", name=scheme.capitalize(), exact=True).click()
    assert tab.evaluate("document.documentElement.dataset.theme") == scheme
    places = ["/runs", "/runs/failed", "/runs/asks", "/signal/asks", "/log/sold", "/queues", "/schedules", "/workers"]
    places += ["/trouble", "/schedules/yearly", "/remove-schedule/yearly", "/many/cancel?workflow=nap", "/start"]
    for at in [*places, "/start?workflow=everything"]:
        tab.goto(address + at)
        tab.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert tab.evaluate(FAINT, CONTRAST) == [], at
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), at
        assert tab.evaluate(NAMELESS) == [], at


# What is written with too little contrast to what is behind it, by the formula of WCAG 2.
FAINT = """least => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = rgb(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("body *")].filter(one =>
    [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()) && one.checkVisibility()
    && !one.closest("svg, .unseen, .skip, :disabled")
  ).map(one => {
    const [a, b] = [light(rgb(getComputedStyle(one).color)), light(behind(one))];
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.className, one.textContent.trim().slice(0, 30)];
  }).filter(([ratio]) => ratio < least).map(([ratio, ...one]) => [ratio.toFixed(2), ...one]);
}"""

# What can be worked and has no name that a screen reader could say.
NAMELESS = """() => [...document.querySelectorAll("a, button, input, select, textarea")].filter(one =>
  one.type !== "hidden" && !one.textContent.trim() && !one.ariaLabel && !one.labels?.length
).map(one => one.outerHTML)"""


def test_what_changes_before_a_page_listens_is_not_missed(filled, tab, serve):
    address, _ = serve(filled)
    held = []
    tab.route("**/live?*", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks what it is given
    with tab.expect_request("**/live?*"):
        tab.goto(f"{address}/runs/naps")
    with open_store(filled, create=False) as store:
        store.request_cancel(store.get_run("naps").run_key, "meanwhile", force=True)
    assert tab.locator("#head .title .status").text_content().strip() == "sleeping"
    held[0].continue_()
    expect(tab.locator("#head .title .status")).to_have_text("cancelled", timeout=5000)


def test_it_says_what_it_shows_when_the_dashboard_is_away_and_ends_at_once(filled, tab, serve):
    address, child = serve(filled)
    tab.goto(f"{address}/runs/asks")
    expect(tab.locator("#live")).to_have_text("live")
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=5) == 0
    expect(tab.locator("#stale")).to_contain_text("This page shows what was so at", timeout=PATIENCE)
    expect(tab.locator("#live")).to_have_text("polling")
    tab.faults[:] = [one for one in tab.faults if "net::ERR_CONNECTION_REFUSED" not in one]
