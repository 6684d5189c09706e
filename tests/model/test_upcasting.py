"""upcast: what is recorded and fits no more is handed over as plain JSON; what comes back is validated."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field

from perdure.errors import DefinitionError, Undecodable
from perdure.model.codec import ValueCodec
from perdure.model.upcasting import UpcastingCodec, check_upcast, value_codec


class Money(BaseModel):
    amount: Decimal
    currency: str = Field(alias="cur")


@dataclass
class Plain:
    at: datetime
    raw: bytes


class Opaque:
    def __init__(self, n):
        self.n = n


def to_money(old):
    return {"amount": old, "currency": "EUR"}


@pytest.mark.parametrize(
    ("hint", "stored", "upcast", "value"),
    [
        (Money, b'"3.50"', to_money, Money(amount=Decimal("3.50"), cur="EUR")),
        (Money, b'"3.50"', lambda old: Money(amount=old, cur="USD"), Money(amount=Decimal("3.50"), cur="USD")),
        (list[Money], b'["1"]', lambda old: [to_money(one) for one in old], [Money(amount=Decimal(1), cur="EUR")]),
        (
            Plain,
            b'["2026-01-01T00:00:00Z","x"]',
            lambda old: {"at": old[0], "raw": old[1]},
            Plain(datetime(2026, 1, 1, tzinfo=UTC), b"x"),
        ),
        (int, b'"seven"', lambda old: {"seven": 7}[old], 7),
        (float, b'"inf"', lambda _: float("inf"), float("inf")),
        (tuple[int, ...], b"3", lambda old: [old, old], (3, 3)),
    ],
)
def test_what_does_not_fit_is_made_to_fit(hint, stored, upcast, value):
    found = UpcastingCodec(hint, upcast).decode(stored)
    assert (found, type(found)) == (value, type(value))


def test_what_fits_is_not_touched():
    def never(old: Any) -> Any:
        raise AssertionError(old)

    assert UpcastingCodec(int, never).decode(b"3") == 3
    assert UpcastingCodec(Any, never).decode(b'{"a":1}') == {"a": 1}


@pytest.mark.parametrize("hint", [Any, Opaque, int])
def test_an_object_of_a_class_that_is_gone_is_handed_over_with_its_tag(hint):
    stored = ValueCodec(Any).encode(Plain(datetime(2026, 1, 1, tzinfo=UTC), b"x")).replace(b"Plain", b"Gone")
    with pytest.raises(Undecodable):
        ValueCodec(hint).decode(stored)
    seen = []
    assert UpcastingCodec(hint, lambda old: seen.append(old) or 3).decode(stored) == 3
    assert f"{__name__}:Gone" in str(seen)


@pytest.mark.parametrize(
    "upcast",
    [
        lambda _: 1 / 0,
        lambda _: "still no money",
        lambda _: {"amount": "x", "currency": "EUR"},
        lambda _: None,
        lambda _: Opaque(3),
    ],
    ids=["raises", "another type", "another value", "nothing", "no data"],
)
def test_what_cannot_be_made_to_fit_is_undecodable_and_says_both(upcast):
    with pytest.raises(Undecodable, match=r"(?s)does not fit .*Money.*upcast=") as raised:
        UpcastingCodec(Money, upcast).decode(b'"3.50"')
    assert raised.value.__cause__ is not None
    assert "upcast=" in raised.value.advice


def test_stored_bytes_that_are_no_json_are_undecodable():
    with pytest.raises(Undecodable):
        UpcastingCodec(int, int).decode(b"\xff")


def test_new_values_never_pass_through_it():
    codec = UpcastingCodec(Money, to_money)
    value = Money(amount=Decimal(3), cur="EUR")
    assert codec.roundtrip(value) == value_codec(Money, None).roundtrip(value)


async def later(old):
    return old


@pytest.mark.parametrize("upcast", [3, "f", later, {}])
def test_only_plain_functions_upcast(upcast):
    with pytest.raises(DefinitionError, match="upcast="):
        check_upcast(upcast)
