"""The reference page is what the commands say of themselves."""

from __future__ import annotations

from tests.cli.reference import PAGE, page


def test_the_reference_is_up_to_date():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "python -m tests.cli.reference writes it anew"
