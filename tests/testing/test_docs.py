"""The page about testing is run as it stands."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from perdure.testing import UnsafeWorkflow

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "test-a-workflow.md"


@pytest.fixture
def page(monkeypatch):
    module = types.ModuleType("test_a_workflow_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), module.__dict__)  # noqa: S102 - our own page
    return module


def test_what_the_page_says_holds(page, tmp_path, capsys):
    for number, name in enumerate(("test_fulfil", "test_fulfil_waits_for_a_fortnight")):
        getattr(page, name)(tmp_path / str(number))
    page.test_fulfil_survives_every_crash()
    assert "none harmful" in capsys.readouterr().out


def test_a_bank_that_ignores_keys_would_be_found(page):
    async def careless(amount, *, ctx):
        return ctx.tools.charge(amount, idempotency_key=str(len(ctx.tools.ledger)))

    page.charge.definition.function  # noqa: B018 - the step is what is changed
    page.charge.fn = careless
    with pytest.raises(UnsafeWorkflow, match="the check failed"):
        page.test_fulfil_survives_every_crash()
