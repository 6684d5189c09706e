"""What is redacted leaves the dashboard by no way at all."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import DefinitionError
from perdure.model.redaction import HIDDEN, Redaction
from perdure.model.tagged import dumps

SECRETS = ("hunter2", "4111 1111", "s3cret")
PATTERNS = ["*password*", "card.number", "token", "failure.text", "failure.traceback", "tags.region"]


@pytest.mark.only("sqlite")
def test_secrets_are_in_no_page_no_twin_and_no_download(filled, browse):
    async def act(browser):
        listed = await browser.json("/runs")
        ids = [one["run_id"] for one in listed["runs"] if "<" not in one["run_id"] and "#" not in one["run_id"]]
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
