"""What is redacted leaves the dashboard by no way at all."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Engine
from perdure.errors import DefinitionError, RunConflict
from perdure.model.redaction import HIDDEN, Redaction
from perdure.model.tagged import dumps
from tests.web import shop
from tests.web.conftest import apart

SECRETS = ("hunter2", "4111 1111", "s3cret")
PATTERNS = ["*password*", "card.number", "token", "failure.text", "failure.traceback", "tags.region"]


@pytest.mark.only("sqlite")
def test_secrets_are_in_no_page_no_twin_and_no_download(filled, browse):
    async def act(browser):
        listed = await browser.json("/runs")
        ids = [quote(one["run_id"]) for one in listed["runs"] if "<" not in one["run_id"] and "#" not in one["run_id"]]
        texts = [json.dumps(listed), await browser.page("/runs")]
        for run_id in ids:
            pages = ("/runs", "/log", "/cancel", "/signal", "/fork")
            texts += [await browser.page(f"{at}/{run_id}") for at in pages]
            texts += [json.dumps(await browser.json(f"{at}/{run_id}")) for at in ("/runs", "/log")]
        for at in ("/schedules", "/schedules/yearly", "/trouble", "/queues", "/many/cancel?status=waiting"):
            texts.append(await browser.page(at))
            texts += [json.dumps(await browser.json(at))] if "/many" not in at else []
        assert (await browser.get("/artifacts/sold?seq=1")).status_code == 403
        assert (await browser.get("/artifacts/sold?step=charge%231&name=x")).status_code == 403
        assert "/artifacts/" not in "".join(texts)
        return texts

    texts = browse(filled, act, redact=PATTERNS)
    assert sum(HIDDEN in text for text in texts) > 15
    for text in texts:
        assert [secret for secret in SECRETS if secret in text] == []
        assert "region=eu" not in text
        assert '"region": "eu"' not in text
    plain = "".join(browse(filled, both))
    assert [secret for secret in SECRETS if secret not in plain] == []


MARKED = ("hunter2", "424242")
COMMANDS = ("show short --json", "show long", "events short", "events long --json", "runs --json", "stream long words",
            "replay short", "schedules --json", "export short")  # fmt: skip
SAY = """
import sys
from perdure.cli.main import cli
for command in sys.argv[2:]:
    try:
        cli([*command.split(), "--store", sys.argv[1]])
    except SystemExit:
        print("~~~", flush=True)
"""


def test_what_types_mark_is_shown_nowhere_though_their_code_is_not_here(path, browse, tmp_path):
    async def made():
        engine = Engine(path, workflows=[shop.enter, shop.inner])
        async with engine:
            for name, size in (("short", 0), ("long", 1)):
                handle = await engine.enqueue(shop.enter, shop.Login(size=size), run_id=name)
                await handle.signal(shop.passed, "hunter2 e")
                assert await handle.result(timeout=20) == "hunter2 e"
            await engine.schedule(shop.enter, shop.Login(), every="300d", key="yearly")
            with pytest.raises(RunConflict) as conflict:
                await engine.enqueue(shop.enter, shop.Login(token="hunter2 f"), run_id="short")  # noqa: S106
            return str(conflict.value)

    texts = [apart(made())]

    async def act(browser):
        ids = [quote(one["run_id"]) for one in (await browser.json("/runs"))["runs"]]
        assert len(ids) == 4
        for at in (f"/{verb}/{run_id}" for verb in ("runs", "log", "cancel", "signal", "fork") for run_id in ids):
            texts.append(await browser.page(at))
        for at in (f"/{verb}/{run_id}" for verb in ("runs", "log") for run_id in ids):
            texts.append(json.dumps(await browser.json(at)))
        for at in ("/runs", "/schedules", "/schedules/yearly", "/trouble", "/start", "/queues"):
            texts.append(await browser.page(at) + json.dumps(await browser.json(at)))
        seqs = [one["seq"] for one in (await browser.json("/log/long"))["events"]]
        downloads = [await browser.get(f"/artifacts/long?seq={seq}") for seq in seqs]
        texts.extend(one.text for one in downloads if one.status_code == 200)

    browse(path, act)
    program = [sys.executable, "-c", SAY, str(path), *COMMANDS]
    done = subprocess.run(program, capture_output=True, check=True, cwd=tmp_path)
    *said, exported, _ = done.stdout.decode().split("~~~")
    assert all(said)
    assert b"hunter2 a" in b64decode(json.loads(exported)["events"][0]["payload"])
    texts += [*said, done.stderr.decode()]
    assert sum(HIDDEN in text for text in texts) > 15
    for text in texts:
        assert [secret for secret in MARKED if secret in text] == []

    async def by_form(browser):
        for at in ("/start?workflow=enter", "/signal/short?signal=passed"):
            text = await browser.page(at)
            assert 'type="password"' in text
            assert [secret for secret in MARKED if secret in text] == []
        listed = json.dumps(await browser.json("/start"))
        assert [secret for secret in MARKED if secret in listed] == []
        typed = {"input.token": "hunter2 t", "input.password": "hunter2 p", "input.pins": "[1, 424242]"}
        refused = await browser.send("/start?workflow=enter", {"input.size": "x", **typed}, workflow="enter")
        assert refused.status_code == 422
        assert "no whole number" in refused.text
        assert [secret for secret in MARKED if secret in refused.text] == []
        made = await browser.send("/start?workflow=enter", typed, workflow="enter", run_id="typed")
        assert made.status_code == 303
        seen = await browser.json("/runs/typed")
        assert seen["run"]["input"]["name"] == "Ada", seen

    browse(Engine(path, workflows=[shop.enter, shop.inner]), by_form)


async def both(browser):
    return await browser.page("/runs/sold"), await browser.page("/runs/failed")


names = st.text("abcdefP_.", min_size=1, max_size=5)


@given(
    st.recursive(
        st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    )
)
def test_only_what_is_hidden_is_left_out(value):
    packed = json.loads(dumps(value))
    assert Redaction(["nothing*"]).shown(packed, "input") == packed
    assert Redaction(["input.*"]).shown({"a": packed}, "input") == {"a": HIDDEN}
    assert Redaction(["INPUT"]).shown(packed, "input") == HIDDEN


@given(names, st.sampled_from(["dict", "pairs", "list", "tuple", "set", "deep"]))
def test_it_is_found_in_every_form_in_which_values_are_stored(name, form):
    secret = {f"my{name}": "x", "password": "hunter2"}
    held = {
        "dict": secret,
        "pairs": {1: secret, "~a": secret},
        "list": [[secret]],
        "tuple": (1, (secret,)),
        "set": {"a": [secret]},
        "deep": {"~": secret},
    }[form]
    shown = json.dumps(Redaction(["*passw?rd"]).shown(json.loads(dumps(held)), "input"))
    assert "hunter2" not in shown
    assert HIDDEN in shown


def test_a_pattern_is_of_a_whole_path_or_its_end():
    one = Redaction(["card.number"])
    assert one.hides("input", "card", "number")
    assert one.hides("card", "number")
    assert not one.hides("input", "postcard", "number")
    assert not one.hides("card", "number", "length")
    assert Redaction(["a"]).arguments(["sha256 x", 9, '{"a":1']) == ["sha256 x", 9, HIDDEN]
    assert Redaction(["a"]).shown({"~named": ["m:T", ["x"]]}, "b") == {"~named": HIDDEN}
    for wrong in ("*", [""], [3]):
        with pytest.raises(DefinitionError):
            Redaction(wrong)
