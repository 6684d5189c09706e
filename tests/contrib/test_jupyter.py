"""Runs in notebooks: shown as they are, whatever they hold, in the loop that a notebook has running."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser

import nbclient
import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter

from perdure import Engine, Retry, Signal, step, workflow
from perdure.contrib.jupyter import show
from perdure.errors import DefinitionError, RunNotFound
from tests.docs.pages import fences
from tests.engine.desk import in_loop
from tests.house import tree

HOSTILE = "<script>alert('x')</script>&\"'"
go = Signal[str]("go")


@step(retry=Retry(max_attempts=2, initial_delay="1ms"))
async def charge(card: dict[str, str]) -> dict[str, str]:
    return card


@step
async def fail(why: str) -> None:
    raise ConnectionError(why)


@workflow
async def pay(card: dict[str, str]) -> dict[str, str]:
    await asyncio.gather(*(charge.with_options(key=f"k{n}")(card) for n in range(3)))
    await go.wait()
    return card


@workflow
async def break_down(why: str) -> None:
    await fail(why)


class Parts(HTMLParser):
    """What a piece of HTML is made of."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, list[str]] = {}
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value)

    def handle_data(self, data):
        self.text += data


def html(shown) -> str:
    """What a notebook makes of it."""
    data, _ = DisplayFormatter().format(shown, include={"text/html", "text/plain"})
    assert data["text/plain"].startswith("<Run ")
    data["text/html"].encode()
    return data["text/html"]


@in_loop
async def test_a_run_is_shown_with_why_and_a_bar_for_each_attempt_and_its_values_stay_text(store):
    async with Engine(store, workflows=[pay, break_down]) as engine:
        handle = await engine.enqueue(pay, {"number": HOSTILE, "odd": "\ud800"}, run_id="a<b>")
        while (await handle.row()).status.word != "waiting":
            await asyncio.sleep(0.005)
        waiting = Parts(html(await show(handle)))
        assert "it waits for the signal 'go'" in waiting.text
        assert waiting.attributes["aria-label"][0].count("attempt 1, completed") == 3
        assert set(waiting.tags) <= {"b", "br", "code", "div", "i", "line", "rect", "span", "svg", "text", "title"}
        assert "a<b>" in waiting.text and HOSTILE.partition("'")[0] in waiting.text  # noqa: PT018 - both are text

        await handle.signal(go, "on")
        await handle.result()
        assert "result:" in Parts(html(await show(handle))).text
        cut = Parts(html(await show(handle, steps=2)))
        assert cut.attributes["aria-label"][0].count("completed") == 2

        failing = await engine.enqueue(break_down, f"{HOSTILE}\ud800", run_id="b")
        with pytest.raises(ConnectionError):
            await failing.result()
        failed = Parts(html(await show(failing)))
        assert "failure: ConnectionError" in failed.text.replace('"', "")
        assert "script" not in failed.tags
        with pytest.raises(RunNotFound):
            await show(engine.get("nothing"))


@pytest.mark.only("sqlite")
@in_loop
async def test_what_is_redacted_is_not_shown(store, monkeypatch):
    async with Engine(store, workflows=[pay, break_down]) as engine:
        handle = await engine.enqueue(pay, {"number": "4711"}, run_id="a")
        await handle.signal(go, "on")
        await handle.result()
        assert "4711" in html(await show(handle))
        assert "4711" not in html(await show(handle, redact=["number"]))
        monkeypatch.setenv("PERDURE_REDACT", "number")
        assert "4711" not in html(await show(handle))
        with pytest.raises(DefinitionError):
            show(handle, redact=[""])


PAGE = tree.ROOT / "docs/how-to/use-in-a-notebook.md"
MORE = [
    """
assert [await handle.result() for handle in handles] == list(range(0, 200, 2))
assert await perdure.arun(reckon, 21, run_id="first") == 42
await engine.stop()
""",
    """
from perdure import sync

with sync.Engine(workflows=[reckon]) as blocking:
    assert blocking.run(reckon, 3, run_id="c") == 6
    shown = show(blocking.get("c"))
shown
""",
    """
try:
    perdure.run(reckon, 1)
except perdure.errors.ColourError as error:
    print(error.advice)
""",
]


@pytest.mark.only("sqlite")
def test_in_a_real_notebook_the_page_does_what_it_says(store, monkeypatch, tmp_path):
    del store  # which the kernel finds in the environment
    monkeypatch.setenv("PYTHONPATH", str(tree.PACKAGE.parent))
    for folder in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(folder, str(tmp_path / folder))
    monkeypatch.chdir(tmp_path)
    cells = [*(fence.text for fence in fences(PAGE) if fence.language == "py"), *MORE]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=30, kernel_name="python3").execute()
    *_, shown, _, blocking, refused = (cell.outputs for cell in notebook.cells)
    for outputs, run_id in ((shown, "n-7"), (blocking, "c")):
        assert f"<b>{run_id}</b>" in outputs[-1].data["text/html"]
        assert "<svg" in outputs[-1].data["text/html"]
    assert refused[-1].text == "write await perdure.arun(…)\n"
