"""The page of settings lists every setting, and its examples are settings."""

from __future__ import annotations

import re
import tomllib

from perdure.config import SETTINGS
from tests.docs.pages import DOCS, PAGES, fences

PAGE = DOCS / "reference" / "settings.md"


def test_every_setting_stands_on_the_page_and_nothing_else_does():
    rows = re.findall(r"^\| (`\w+`|\(never\)) \| `(\w+)` \| .+ \| .+ \|$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    told = [("(never)" if setting.is_secret else f"`{setting.name}`", setting.variable) for setting in SETTINGS]
    assert rows == told


def test_settings_in_examples_are_settings():
    examples = [tomllib.loads(fence.text) for page in PAGES for fence in fences(page) if fence.language == "toml"]
    named = {name for said in examples for name in said.get("tool", {}).get("perdure", said)}
    assert named
    assert named <= {setting.name for setting in SETTINGS if not setting.is_secret}
