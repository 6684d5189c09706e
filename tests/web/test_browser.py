"""The dashboard in a real browser, with real workers that are killed: one store, one dashboard, one browser."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect, sync_playwright

from perdure import Engine
from perdure.store.open import open_store
from tests.house import tree
from tests.web import shop
from tests.web.conftest import apart

PATIENCE = 15_000
CONTRAST = 4.5
WIDE, NARROW = {"width": 1360, "height": 900}, {"width": 390, "height": 844}
PAGES = [
    "/runs", "/runs?status=failed", "/runs/failed", "/runs/asks", "/signal/asks?signal=decision", "/cancel/asks",
    "/pause/asks", "/resume/failed", "/fork/failed", "/log/sold", "/queues", "/schedules", "/schedules/yearly",
    "/workers", "/trouble", "/trigger-schedule/yearly", "/remove-schedule/yearly", "/many/cancel?workflow=nap",
    "/start", "/start?workflow=everything", "/runs/nobody",
]  # fmt: skip


class Site:
    """A store, its dashboard and a browser; and processes of Perdure's, killed at the end."""

    def __init__(self, store, folder, browser):
        self.store, self.folder, self.browser = store, folder, browser
        self.children = []
        self.address, self.dashboard = "", None

    def start(self, *command):
        environ = {**os.environ, "PYTHONPATH": str(tree.PACKAGE.parent), "GATES": str(self.folder)}
        command = [sys.executable, "-m", "perdure", *command, "--store", self.store]
        child = subprocess.Popen(command, cwd=tree.ROOT, env=environ, stderr=subprocess.PIPE, text=True)
        self.children.append(child)
        return child

    def serve(self):
        self.dashboard = child = self.start("ui", "tests.web.shop", "--port", "0")
        line = child.stderr.readline()
        assert "the dashboard of" in line, line + child.stderr.read()
        threading.Thread(target=child.stderr.read, daemon=True).start()
        self.address = line.split(" is at ")[1].strip().rstrip("/")

    @contextmanager
    def tab(self, *expected, viewport=WIDE, **options):
        """A tab in which nothing may go wrong: no error, no violation of the policy, no request to elsewhere."""
        context = self.browser.new_context(viewport=viewport, reduced_motion="reduce", base_url=self.address, **options)
        context.set_default_timeout(PATIENCE)
        page, faults = context.new_page(), []
        page.on("console", lambda message: message.type in {"error", "warning"} and faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda one: one.url.startswith(f"{self.address}/") or faults.append(f"asked {one.url}"))
        yield page
        context.close()
        assert [one for one in faults if not any(text in one for text in expected)] == []

    def enqueue(self, workflow, *ids, namespace="", **options):
        async def enqueue():
            async with Engine(self.store, workflows=shop.WORKFLOWS, namespace=namespace).client() as engine:
                for run_id in ids:
                    value = run_id if workflow is shop.two else shop.Order()
                    await engine.enqueue(workflow, value, run_id=run_id, **options)

        apart(enqueue())


@pytest.fixture
def site(filled, tmp_path):
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found is not None, "these tests need Chromium: apt install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        site = Site(filled, tmp_path, browser)
        try:
            site.serve()
            yield site
        finally:
            for child in site.children:
                child.kill()
                child.communicate()
            browser.close()


@pytest.mark.only("sqlite")
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_dashboard_in_a_browser(site, subtests):
    """One store, one dashboard and one browser for all: each of them takes its time to start."""
    for scenario in SCENARIOS:
        with subtests.test(scenario.__name__):
            scenario(site)


def a_run_is_followed_while_its_worker_is_killed_and_another_goes_on(site):
    first = site.start("worker", "tests.web.shop:two")
    site.enqueue(shop.two, "gate")
    with site.tab() as tab:
        tab.goto("/runs/gate")
        status = tab.locator("#head .title .status")
        expect(status).to_have_text("running", timeout=PATIENCE)
        expect(tab.locator('[data-key="wait_for_gate#1"] .status')).to_have_text("running", timeout=PATIENCE)
        summary = tab.locator('[data-key="ship#1"] summary').first
        summary.focus()
        tab.keyboard.press("Enter")
        expect(tab.locator('[data-key="ship#1"]')).to_have_attribute("open", "")
        assert (site.folder / "effects").read_text() == "gate\n"

        first.send_signal(signal.SIGKILL)
        first.wait()
        expect(tab.locator(".why")).to_contain_text("is gone", timeout=PATIENCE)
        site.start("worker", "tests.web.shop", "--concurrency", "100")  # for what follows, too
        expect(tab.locator('[data-key="wait_for_gate#1"] .status')).to_have_text("running", timeout=PATIENCE)
        expect(tab.locator(".why")).to_contain_text("executes it", timeout=PATIENCE)
        (site.folder / "gate").touch()
        expect(status).to_have_text("completed", timeout=PATIENCE)
        expect(tab.locator("#log")).to_contain_text("run_completed")
        expect(tab.locator("#log")).to_contain_text("run_reclaimed")
        expect(tab.locator('[data-key="ship#1"]')).to_have_attribute("open", "")
        expect(summary).to_be_focused()
        assert (site.folder / "effects").read_text() == "gate\ngate\n"
        assert tab.locator("#announce").text_content() == "The run is now completed"


def all_that_is_written_can_be_read_in_either_colours_and_on_a_small_screen(site):
    with site.tab("status of 404") as tab:
        for scheme, other in (("light", "dark"), ("dark", "light")):
            tab.emulate_media(color_scheme=other)
            tab.goto("/runs")
            tab.get_by_role("button", name=scheme.capitalize(), exact=True).click()
            expect(tab.locator("html")).to_have_attribute("data-theme", scheme)
        for at in PAGES:
            tab.goto(at, wait_until="domcontentloaded")
            tab.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
            assert tab.evaluate(NAMELESS) == [], at
            for scheme in ("light", "dark"):
                tab.evaluate("scheme => { document.documentElement.dataset.theme = scheme; }", scheme)
                assert tab.evaluate(FAINT, CONTRAST) == [], (at, scheme)
            for size in (NARROW, WIDE):
                tab.set_viewport_size(size)
                assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), (at, size)


def everything_can_be_read_and_filtered_without_scripts(site):
    with site.tab("status of 404", java_script_enabled=False) as tab:
        for at in PAGES:
            answer = tab.goto(at)
            assert answer.status == (404 if at == "/runs/nobody" else 200)
            expect(tab.locator("h1").first).to_be_attached()
        tab.goto("/runs")
        tab.locator(".statuses label.failed").click()
        tab.get_by_label("Workflow").fill("fail")
        tab.get_by_role("button", name="Filter").click()
        expect(tab.locator("tbody tr")).to_have_count(1)
        tab.get_by_role("link", name="failed", exact=True).click()
        tab.locator('[data-key="reject#1"] summary').first.click()
        expect(tab.locator('[data-key="reject#1"]')).to_contain_text("Attempt 1")


def it_is_worked_by_the_keyboard_alone(site):
    site.enqueue(shop.nap, "typed", delay="1h")
    with site.tab() as tab:
        tab.goto("/runs")
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.textContent") == "Skip to content"
        tab.keyboard.press("/")
        assert tab.evaluate("document.activeElement.name") == "workflow"
        tab.keyboard.type("nap")
        tab.keyboard.press("Enter")
        expect(tab.get_by_role("link", name="Clear")).to_be_visible()
        walk(tab, "typed")
        tab.keyboard.press("Enter")
        expect(tab.locator("h1")).to_have_text("typed")
        walk(tab, "Cancel…")
        tab.keyboard.press("Enter")
        expect(tab.locator("h1")).to_have_text("Cancel typed")
        assert tab.evaluate("document.activeElement.name") == "reason"
        tab.keyboard.type("by keyboard")
        walk(tab, "Cancel the run")
        tab.keyboard.press("Enter")
        expect(tab.locator(".flash")).to_be_visible()
        expect(tab.locator(".why")).to_contain_text("by keyboard")


def a_run_is_started_by_the_keyboard_alone_and_executed(site):
    with site.tab("status of 422") as tab:
        tab.goto("/runs")
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
        fill_in(tab, {"count": "3"})
        tab.keyboard.press("Enter")
        expect(tab.locator(".flash")).to_be_visible()
        expect(tab.locator("#head .title .status")).to_have_text("completed", timeout=PATIENCE)
        expect(tab.locator("main")).to_contain_text('"street": "Main"')


def a_run_is_paused_resumed_told_and_forked(site):
    with site.tab() as tab:
        tab.goto("/runs/naps")
        status = tab.locator("#head .title .status")
        press(tab, "Pause", "Pause")
        expect(status).to_have_text("paused")
        press(tab, "Resume", "Resume")
        expect(status).to_have_text("sleeping", timeout=PATIENCE)

        tab.goto("/runs/asks")
        tab.get_by_role("link", name="Signal…").click()
        tab.get_by_role("link", name="decision").click()
        tab.get_by_label("By").fill("Grace")
        tab.get_by_role("button", name="Send").click()
        expect(status).to_have_text("completed", timeout=PATIENCE)
        expect(tab.locator("#values")).to_contain_text("Grace")
        expect(tab.locator("#log")).to_contain_text("from the dashboard by")
        tab.get_by_role("link", name="From the beginning").click()
        expect(tab.locator("tbody tr").first).to_contain_text("run_created")

        tab.goto("/runs/sold")
        tab.locator('[data-key="charge#1"] summary').click()
        with tab.expect_download() as download:
            tab.locator('[data-key="charge#1"] .artifacts a').click()
        assert download.value.path().read_bytes() == b"<script>alert(3)</script>"
        tab.locator('[data-key="ship#1"] summary').click()
        tab.locator('[data-key="ship#1"]').get_by_role("link", name="Fork from here…").click()
        expect(tab.locator("select")).to_have_value("ship#1")
        tab.get_by_label("Id of the fork").fill("a fork")
        tab.get_by_role("button", name="Fork").click()
        expect(tab.locator("h1")).to_have_text("a fork")
        expect(status).to_have_text("completed", timeout=PATIENCE)
        expect(tab.locator("#head .facts")).to_contain_text("Forked by")


def queues_and_schedules_are_paused_triggered_and_removed(site):
    with site.tab() as tab:
        tab.goto("/queues")
        tab.get_by_role("button", name="Pause the default queue").click()
        expect(tab.locator(".queues .state.paused")).to_have_count(1)
        expect(tab.locator(".deeds")).to_contain_text("from the dashboard")
        tab.get_by_role("button", name="Resume the default queue").click()
        expect(tab.locator(".queues .state.paused")).to_have_count(0)

        tab.goto("/schedules")
        tab.get_by_role("link", name="yearly").click()
        state = tab.locator("#head .title .state")
        tab.get_by_role("button", name="Pause").click()
        expect(state).to_have_text("paused")
        tab.get_by_role("button", name="Resume").click()
        expect(state).to_have_text("active")
        press(tab, "Trigger now…", "Create a run now")
        expect(tab.locator("h1")).to_contain_text("yearly@trigger-")
        tab.goto("/schedules/yearly")
        expect(tab.locator(".deeds tbody tr")).to_have_count(3)
        press(tab, "Remove…", "Remove")
        expect(tab.locator(".flash")).to_be_visible()
        expect(tab.get_by_role("link", name="yearly", exact=True)).to_have_count(0)
        expect(tab.locator(".deeds .state.removed")).to_have_count(1)

        tab.goto("/workers")
        expect(tab.locator(".state.alive")).to_have_count(1)
        tab.goto("/trouble")
        tab.get_by_role("link", name="Read all of it").or_(tab.get_by_role("button", name="Read all of it")).click()
        expect(tab.locator("h1")).to_contain_text("Trouble")


def runs_are_filtered_and_namespaces_switched(site):
    site.enqueue(shop.nap, "invoice", namespace="billing", delay="1h")
    with site.tab() as tab:
        tab.goto("/runs")
        while not tab.locator(".spaces").count():  # which namespaces there are is looked up now and then
            tab.goto("/runs")
        rows = tab.locator("tbody tr")
        tab.locator(".statuses label.failed").click()
        tab.get_by_role("button", name="Filter").click()
        expect(rows).to_have_count(1)
        tab.get_by_role("link", name="Clear").click()
        tab.get_by_label("Tags").fill("region=eu")
        tab.keyboard.press("Enter")
        expect(rows.first).to_contain_text("region=eu")
        tab.locator(".more-filters summary").click()
        tab.get_by_label("Created since").fill("2040-01-01T00:00Z")
        tab.keyboard.press("Enter")
        expect(tab.locator(".empty")).to_be_visible()
        tab.get_by_role("link", name="24h").click()
        expect(tab.locator(".windows [aria-current]")).to_have_text("24h")
        tab.locator(".spaces summary").click()
        tab.get_by_role("link", name="billing").click()
        expect(rows).to_have_count(1)
        tab.get_by_role("link", name="invoice").click()
        expect(tab.locator("h1")).to_have_text("invoice")


def many_runs_are_cancelled_while_a_worker_executes_some_of_them(site):
    mine = [f"mine-{number}" for number in range(12)]
    site.enqueue(shop.two, *mine[:3], "other")
    site.enqueue(shop.nap, *mine[3:], "spared", delay="1h")
    with site.tab() as tab:
        tab.goto("/runs?id_prefix=mine")
        expect(tab.locator("tbody .status.running")).to_have_count(3, timeout=PATIENCE)
        tab.get_by_role("link", name="Cancel…").click()
        expect(tab.locator("h1")).to_have_text("Cancel 12 runs")
        site.enqueue(shop.nap, "mine-late", delay="1h")
        tab.get_by_label("Reason").fill("a mistake")
        tab.get_by_role("button", name="Cancel 12 runs").click()
        expect(tab.locator(".tally")).to_have_text("12 runs cancelled, or asked to.")
        tab.get_by_role("link", name="To the runs").click()
        expect(tab.locator("tbody .status.cancelled")).to_have_count(12, timeout=PATIENCE)
        tab.get_by_role("link", name="Clear").click()
        for name, status in (("other", "running"), ("spared", "pending"), ("mine-late", "pending")):
            expect(tab.locator("tr", has_text=name).locator(".status")).to_have_text(status)
        (site.folder / "other").touch()
        expect(tab.locator("tr", has_text="other").locator(".status")).to_have_text("completed", timeout=PATIENCE)


def what_changes_before_a_page_listens_is_not_missed(site):
    site.enqueue(shop.nap, "held", delay="1h")
    with site.tab() as tab:
        held = []
        tab.route("**/live?*", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks what it is given
        with tab.expect_request("**/live?*"):
            tab.goto("/runs/held")
        with open_store(site.store, create=False) as store:
            store.request_cancel(store.get_run("held").run_key, "meanwhile", force=True)
        assert tab.locator("#head .title .status").text_content().strip() == "pending"
        held[0].continue_()
        expect(tab.locator("#head .title .status")).to_have_text("cancelled", timeout=5000)


def it_says_what_it_shows_when_the_dashboard_is_away_and_ends_at_once(site):
    with site.tab("net::ERR_CONNECTION_REFUSED") as tab:
        tab.goto("/runs/naps")
        expect(tab.locator("#live")).to_have_text("live")
        site.dashboard.send_signal(signal.SIGINT)
        assert site.dashboard.wait(timeout=5) == 0
        expect(tab.locator("#stale")).to_contain_text("This page shows what was so at", timeout=PATIENCE)
        expect(tab.locator("#live")).to_have_text("polling")


SCENARIOS = (
    a_run_is_followed_while_its_worker_is_killed_and_another_goes_on,
    all_that_is_written_can_be_read_in_either_colours_and_on_a_small_screen,
    everything_can_be_read_and_filtered_without_scripts,
    it_is_worked_by_the_keyboard_alone,
    a_run_is_started_by_the_keyboard_alone_and_executed,
    a_run_is_paused_resumed_told_and_forked,
    queues_and_schedules_are_paused_triggered_and_removed,
    runs_are_filtered_and_namespaces_switched,
    many_runs_are_cancelled_while_a_worker_executes_some_of_them,
    what_changes_before_a_page_listens_is_not_missed,
    it_says_what_it_shows_when_the_dashboard_is_away_and_ends_at_once,  # the last
)


def press(tab, link, button):
    """Follow a link to a page that asks first, and agree."""
    tab.get_by_role("link", name=link, exact=True).click()
    tab.locator("form.stack button").filter(has_text=button).click()


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
