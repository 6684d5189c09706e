from __future__ import annotations

import contextlib
import enum
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, Secret, field_serializer, model_validator

from perdure.errors import NotSerializable, Undecodable
from perdure.model.codec import ValueCodec
from perdure.model.equality import same
from tests.model.values import (
    BERLIN,
    COMPOSED,
    SOLO,
    Box,
    Camel,
    Checked,
    Colour,
    Crate,
    Frozen,
    Late,
    Level,
    Loose,
    Names,
    Order,
    Plain,
    Point,
    Right,
    Row,
    Rush,
    Word,
    numbered,
    values,
    with_secret,
)


class Vault(BaseModel):
    pin: Secret[int]


class Hidden(BaseModel):
    name: str
    note: str = Field(default="", exclude=True)


class Lossy(BaseModel):
    x: int

    @field_serializer("x")
    def one_more(self, x: int) -> int:
        return x + 1


class Moody(BaseModel):
    x: int

    @model_validator(mode="after")
    def never(self) -> Moody:
        raise LookupError("a validator may raise anything")


TABLE: list[tuple[Any, Any]] = [
    *((Any, value) for value in [*SOLO, *COMPOSED, with_secret()]),
    *((type(value), value) for value in SOLO),
    (float, 1),
    (float, float("nan")),
    (int, True),
    (str, Word.YES),
    (Any, Word.YES),
    (int, Level.LOW),
    (object, [Level.LOW]),
    (str, "\ud800"),
    (str, "\ud83d\ude00"),
    (str | None, None),
    (int | str, "1"),
    (int | float, 1),
    (int | float, 1.0),
    (bool | int, 1),
    (list[int], [1, 2]),
    (list[int], (1, 2)),
    (Sequence[int], (1, 2)),
    (Sequence[int], [1]),
    (set[int], {1, 2}),
    (tuple[int, ...], (1,)),
    (list[float], [1, 2.5]),
    (list[Any], [(1,), Word.YES]),
    (dict[int, str], {1: "a"}),
    (dict[str, Any], {"~tuple": [1]}),
    (dict[tuple[int, int], int], {(1, 2): 3}),
    (Order, Order(id="1", amount=2)),
    (Order, Rush(id="1", amount=1, hours=9)),
    (list[Order], [Rush(id="1", amount=1)]),
    (Order, {"id": "1", "amount": 2}),
    (Order, None),
    (Optional[Order], None),  # noqa: UP045
    (Order, Order(id="1", amount=1, at=datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1))),
    (Order, Order(id="1", amount=1, at=datetime(2026, 1, 1, tzinfo=UTC))),
    (datetime, datetime(2026, 1, 1, tzinfo=BERLIN)),
    (Order, Order.model_construct(id=1, amount="x")),
    (Loose, Loose(value=(1, 2))),
    (Loose, Loose(value=1, more=[1])),
    (Loose, with_secret()),
    (Camel, Camel(orderId=1, p=2)),
    (Crate[int], Crate[int](content=1)),
    (Crate, Crate(content=Word.YES)),
    (Names, Names(["x"])),
    (Hidden, Hidden(name="a", note="b")),
    (Lossy, Lossy(x=1)),
    (Plain, Plain("a", extra=Decimal("1.10"))),
    (Box[int], Box(1)),
    (Late, Late(2)),
    (Checked, Checked(1)),
    (Frozen, Frozen(1, (2,))),
    (Point, Point(1)),
    (Row, Row(id=1, tags=[])),
    (Row, {"id": 1, "tags": [], "more": (1,)}),
    (Colour, Colour.BLUE),
    (Colour, Colour.RED),
    (Level, Level.HIGH),
    (Word, Word.YES),
    (Right, Right.READ | Right.WRITE),
    (Literal["a"], "a"),
    (Decimal, Decimal("1.10")),
    (Decimal, "1.10"),
    (datetime, "2026-01-01"),
    (bytes, b"\xff"),
    (bytes, b"ok"),
    (complex, 1j),
    (str, b"x"),
    (int, 10**5000),
]


@pytest.mark.parametrize(("hint", "value"), TABLE, ids=numbered([value for _, value in TABLE]))
def test_what_comes_back_equals_what_went_in_whatever_was_announced(hint, value):
    codec = ValueCodec(hint)
    data, copy = codec.roundtrip(value)
    assert type(copy) is type(value)
    assert same(value, copy)
    assert same(codec.decode(data), copy)
    assert codec.encode(copy) == data
    json.loads(data)


@given(values)
def test_an_unannotated_value_comes_back_as_it_was(value):
    data, copy = ValueCodec().roundtrip(value)
    assert same(value, copy)
    assert same(ValueCodec().decode(data), copy)


@given(
    values,
    st.sampled_from(
        [Order, Plain, list[int], dict[str, Any], str, float, datetime, Sequence[Any], set[int], int | str]
    ),
)
def test_a_wrong_annotation_loses_nothing(value, hint):
    data, copy = ValueCodec(hint).roundtrip(value)
    assert same(value, copy)
    assert same(ValueCodec(hint).decode(data), copy)


def test_the_form_of_the_bytes_is_part_of_the_format():
    assert ValueCodec(Order).encode(Order(id="1", amount=2)) == b'{"id":"1","amount":2,"at":null}'
    assert ValueCodec(str).encode("ö\x00") == '"ö\\u0000"'.encode()
    assert ValueCodec(Any).encode({"a": [1, None]}) == b'{"a":[1,null]}'
    assert ValueCodec(Any).encode((1,)) == b' {"~tuple":[1]}'
    assert ValueCodec(float).encode(1) == b" 1"
    assert ValueCodec(Camel).encode(Camel(orderId=1, p=2)) == b'{"order_id":1,"price":2}'


class Tagged(BaseModel):
    tags: frozenset[str]
    groups: list[set[int]] = []
    by_place: dict[tuple[int, int], set[int]] = {}
    pairs: set[tuple[int, frozenset[int]]] = set()


def test_sets_are_written_in_one_order_whatever_theirs_is():
    # Both hash to one place, so that a set of them is in the order in which they came.
    one, other = {8, 0}, set([0]) | {8}  # noqa: C405 - the order is the point
    assert [*one] != [*other]
    pairs = [{(1, frozenset(one)), (2, frozenset())}, {(2, frozenset()), (1, frozenset(other))}]
    tagged = [
        Tagged(tags=frozenset("ab"), groups=[{3}, found], by_place={(1, 2): found}, pairs=pairs[at])
        for at, found in enumerate([one, other])
    ]
    assert ValueCodec(set[int]).encode(one) == ValueCodec(set[int]).encode(other) == b"[0,8]"
    assert ValueCodec(Tagged).encode(tagged[0]) == ValueCodec(Tagged).encode(tagged[1])
    assert same(ValueCodec(Tagged).roundtrip(tagged[0])[1], tagged[0])
    assert ValueCodec(list[int] | set[int]).encode([8, 0]) == b"[8,0]"


def test_values_are_isolated_copies_and_scalars_are_themselves():
    order, text = Order(id="1", amount=2), "x" * 40
    assert ValueCodec(Order).roundtrip(order)[1] is not order
    assert ValueCodec(str).roundtrip(text)[1] is text
    inner: list[int] = []
    assert ValueCodec().roundtrip({"a": inner})[1]["a"] is not inner


def test_a_subclass_of_the_annotated_model_keeps_its_fields():
    copy = ValueCodec(Order).roundtrip(Rush(id="1", amount=2, hours=5))[1]
    assert type(copy) is Rush
    assert copy.hours == 5


def test_a_local_class_works_where_its_annotation_decodes_it_and_only_there():
    class Local(BaseModel):
        x: int

    @dataclass
    class Spot:
        x: float

    codec = ValueCodec(Local)
    assert codec.decode(codec.encode(Local(x=1))) == Local(x=1)
    assert ValueCodec(Spot).roundtrip(Spot(1))[1] == Spot(1.0)
    with pytest.raises(NotSerializable, match="inside a function"):
        ValueCodec().encode([Local(x=1)])


def test_a_coercion_that_only_the_annotation_asks_for_needs_equality():
    @dataclass
    class Tally:
        counts: Sequence[int]
        word: Any = None

    assert ValueCodec(Tally).roundtrip(Tally((1, 2)))[1] == Tally([1, 2])
    with pytest.raises(NotSerializable):
        ValueCodec(Tally).roundtrip(Tally([1], word=Word.YES))


@pytest.mark.parametrize("hint", [Any, object, Plain, list[Any], "not a type", threading.Lock])
def test_an_unstorable_value_is_refused_by_path_under_any_annotation(hint):
    with pytest.raises(NotSerializable) as caught:
        ValueCodec(hint).encode({"items": [1, lambda: 0]}, "order")
    assert caught.value.path == "order.items[1]"
    assert caught.value.type == "function"


def test_a_secret_that_would_come_back_as_asterisks_is_refused():
    with pytest.raises(NotSerializable) as caught:
        ValueCodec(Vault).encode(Vault(pin=Secret(1)))
    assert caught.value.path == "$.pin"


def test_recorded_json_decodes_under_todays_type():
    assert ValueCodec(Order).decode(b'{"id":"1","amount":2,"legacy":true}') == Order(id="1", amount=2)
    assert ValueCodec(Camel).decode(b'{"orderId":1,"p":2}') == Camel(orderId=1, p=2)
    for hint, data in [
        (Order, b'{"id":"1"}'),
        (int, b'"x"'),
        (Moody, b'{"x":1}'),
        (Order, b""),
        (str, b"\xff"),
        (Any, b"{"),
    ]:
        with pytest.raises(Undecodable) as caught:
            ValueCodec(hint).decode(data)
        assert caught.value.type
        assert caught.value.advice


def test_a_type_that_cannot_be_built_yet_is_used_once_it_can():
    codec = ValueCodec(list["Tomorrow"])  # noqa: F821 - that it is not there is the point
    with pytest.raises(NotSerializable):
        codec.encode([object()])
    assert codec.roundtrip([1])[1] == [1]


@given(st.sampled_from([Any, Order, Plain, int, str, list[Order], Frozen, dict[int, str], Colour]), st.data())
@settings(max_examples=250)
def test_damaged_bytes_are_decoded_or_undecodable_and_nothing_else(hint, data):
    source = data.draw(
        st.sampled_from(
            [Order(id="1", amount=2), Plain("a", extra=(1, {2})), Colour.RED, {1: "a"}, [Frozen(1)], 5, "x"]
        )
    )
    raw = bytearray(ValueCodec(hint).encode(source))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(Undecodable):
        ValueCodec(hint).decode(bytes(raw))


@given(st.binary(max_size=40), st.sampled_from([Any, Order, int, Frozen, Sequence[int]]))
def test_any_bytes_are_decoded_or_undecodable(raw, hint):
    with contextlib.suppress(Undecodable):
        ValueCodec(hint).decode(raw)


def test_two_values_that_are_only_equal_are_not_the_same():
    class Other(enum.IntEnum):
        LOW = 1

    pairs = [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        ("yes", Word.YES),
        (Level.LOW, 1),
        (Level.LOW, Other.LOW),
        ((1,), [1]),
        ({1: 2}, {True: 2}),
        ({1}, {True}),
        ({1}, {1.0}),
        (Decimal("1.10"), Decimal("1.1")),
        ([1], [True]),
        (Order(id="1", amount=1), Rush(id="1", amount=1)),
        (Plain("a", extra=1), Plain("a", extra=True)),
        (Crate[int](content=1), Crate(content=1)),
        (Loose(value=1), with_secret()),
        (datetime(2026, 10, 25, 2, tzinfo=BERLIN), datetime(2026, 10, 25, 2, tzinfo=BERLIN, fold=1)),
        (b"", bytearray()),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=BERLIN)),
        (Point(1, 2), (1, 2)),
    ]
    for one, other in pairs:
        assert not same(one, other), (one, other)
        assert same(one, one)
