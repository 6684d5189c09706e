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


def walk(tab, text):
    """Press Tab until what has the focus says this; each stop can be seen to have it."""
    for _ in range(60):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.textContent").strip() == text:
            assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
            return
    pytest.fail(f"Tab does not lead to {text!r}")


def test_all_that_is_written_can_be_read_in_either_colours(filled, tab, serve):
    address, _ = serve(filled)
    for scheme, other in (("light", "dark"), ("dark", "light")):
        tab.emulate_media(color_scheme=other)
        check_colours(tab, address, scheme)


def check_colours(tab, address, scheme):
    tab.goto(f"{address}/runs")
    tab.get_by_role("button", name=scheme.capitalize(), exact=True).click()
    assert tab.evaluate("document.documentElement.dataset.theme") == scheme
    for at in ("/runs", "/runs/failed", "/runs/asks", "/signal/asks", "/log/sold"):
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
