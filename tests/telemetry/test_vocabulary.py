"""The reference of telemetry lists what the code has, and the code has what it lists."""

from __future__ import annotations

from tests.docs.telemetry import PAGE, page


def test_the_reference_is_up_to_date():
    text = PAGE.read_text("utf-8")
    assert page(text) == text, "write it anew: python -m tests.docs.telemetry"
