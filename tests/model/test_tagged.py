from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import socket
import sys
import threading
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.errors import NotSerializable, Undecodable
from perdure.model.equality import same
from perdure.model.tagged import MAX_DEPTH, dumps
from perdure.model.untagged import loads
from tests.model.seeds import said_under_hash_seeds
from tests.model.values import COMPOSED, SOLO, Loose, Order, Plain, TextKey, hashables, numbered, values, with_secret

TABLE = [*SOLO, *COMPOSED, with_secret()]


@pytest.mark.parametrize("value", TABLE, ids=numbered(TABLE))
def test_a_value_comes_back_as_it_was(value):
    data = dumps(value)
    back = loads(data)
    assert type(back) is type(value)
    assert same(value, back)
    assert dumps(back) == data
    json.loads(data)


@given(values)
def test_every_supported_value_comes_back_as_it_was(value):
    data = dumps(value)
    back = loads(data)
    assert same(value, back)
    assert dumps(back) == data


def test_the_exact_class_survives_inside_containers():
    back = loads(dumps([True, 1, 1.0, "x", (1,), {1: 2}]))
    assert [type(item) for item in back] == [bool, int, float, str, tuple, dict]


def test_a_zone_comes_back_with_its_key_and_its_fold():
    when = next(value for value in SOLO if getattr(value, "fold", 0) == 1 and hasattr(value, "year"))
    back = loads(dumps(when))
    assert back.tzinfo is when.tzinfo
    assert back.fold == 1
    assert back.utcoffset() == when.utcoffset()


def test_ints_beyond_the_digit_limit_are_written_and_read():
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert loads(dumps({"n": 10**5000})) == {"n": 10**5000}
    finally:
        sys.set_int_max_str_digits(limit)


@given(st.sets(hashables, max_size=6))
def test_sets_are_written_in_one_order_whatever_theirs_is(items):
    other: set[object] = set()
    for item in reversed(list(items)):
        other.add(item)  # one by one, in this order
    assert dumps(items) == dumps(other)


def test_sets_are_written_alike_in_every_process():
    code = "from perdure.model.tagged import dumps; print(dumps({'a', 'b', 'c', 1, (2, 'x')}).decode())"
    assert len(said_under_hash_seeds(code)) == 1


# -- refusals -------------------------------------------------------------------------------------


class Opaque:
    def __getstate__(self):
        raise RuntimeError("no")


class Sub(list):
    pass


@dataclass
class Stray:
    x: int

    def __post_init__(self):
        self.lock = threading.Lock()


@dataclass
class Unset:
    x: int = dataclasses.field(init=False)


def local_dataclass():
    @dataclass
    class Local:
        x: int = 1

    return Local()


def generator():
    yield 1


@pytest.mark.parametrize(
    ("value", "path", "name"),
    [
        ({"items": [1, 2, 3, Plain("a", extra=lambda: 0)]}, "$.items[3].extra", "function"),
        ([threading.Lock()], "$[0]", "_thread.lock"),
        ({"a b": generator()}, "$['a b']", "generator"),
        ({1: object()}, "$[1]", "object"),
        ((1, {"x": Opaque()}), "$[1].x", f"{__name__}.Opaque"),
        ([TextKey("x")], "$[0]", "tests.model.values.TextKey"),
        ({TextKey("x"): 1}, "$[tests.model.values.TextKey key]", "tests.model.values.TextKey"),
        ([Sub()], "$[0]", f"{__name__}.Sub"),
        ([Stray(1)], "$[0]", f"{__name__}.Stray"),
        ([Unset()], "$[0]", f"{__name__}.Unset"),
        ([Loose(value=Opaque())], "$[0].value", f"{__name__}.Opaque"),
        ([int], "$[0]", "type"),
        ([ValueError("x")], "$[0]", "ValueError"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_path_and_type(value, path, name):
    with pytest.raises(NotSerializable, match=re.escape(path)) as caught:
        dumps(value)
    assert caught.value.path == path
    assert caught.value.type == name
    assert caught.value.advice


def test_a_socket_is_refused():
    with socket.socket() as open_socket, pytest.raises(NotSerializable, match="socket"):
        dumps({"s": open_socket})


def test_a_cycle_is_refused_where_it_closes():
    value: dict[str, object] = {"children": [1]}
    value["children"].append({"parent": value})  # type: ignore[attr-defined]
    with pytest.raises(NotSerializable, match="contains itself") as caught:
        dumps({"root": value})
    assert caught.value.path == "$.root.children[1].parent"


def test_depth_is_bounded_so_that_what_is_written_can_be_read():
    value: object = 1
    for _ in range(MAX_DEPTH):
        value = {1: value}
    assert same(loads(dumps(value)), value)
    with pytest.raises(NotSerializable, match="deeper"):
        dumps({1: value})


def test_a_local_class_is_refused_with_advice():
    with pytest.raises(NotSerializable, match="inside a function") as caught:
        dumps(local_dataclass())
    assert "top of its module" in caught.value.advice


def test_a_property_that_raises_refuses_its_value_only():
    class Hostile(dict):
        def items(self):
            raise RuntimeError("no")

    with pytest.raises(NotSerializable):
        dumps(Hostile())


# -- reading --------------------------------------------------------------------------------------


def test_a_class_is_never_imported_to_be_found():
    data = b'{"~data":["this:Nothing",{}]}'
    sys.modules.pop("this", None)
    with pytest.raises(Undecodable, match="no loaded module"):
        loads(data)
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "data",
    [
        b'{"~data":["os:system",{}]}',
        b'{"~enum":["builtins:dict","x"]}',
        b'{"~model":["builtins:dict",{},[],null,{}]}',
        b'{"~named":["builtins:tuple",[]]}',
        b'{"~new":1}',
        b'{"~path":["str","x"]}',
        b'{"~set":[[1]]}',
        b"NaN",
        b"[1",
        b"",
        b"\xff",
        b'{"~datetime":["2026-01-01T00:00:00","../../etc/passwd",0]}',
        b'{"~flag":["builtins:int",1]}',
        b"[" * 100_000,
        b"1" * 10_000,
        b'{"~defaultdict":["os:nothing",[]]}',
    ],
)
def test_bytes_that_stand_for_nothing_are_undecodable(data):
    with pytest.raises(Undecodable) as caught:
        loads(data)
    assert caught.value.type


@given(values, st.integers(0, 10**6), st.integers(0, 255))
@example([1, (2,)], 3, 0x7E)
@settings(max_examples=300)
def test_damaged_bytes_are_read_or_undecodable_and_nothing_else(value, position, byte):
    data = bytearray(dumps(value))
    data[position % len(data)] = byte
    with contextlib.suppress(Undecodable):
        loads(bytes(data))


@given(st.binary(max_size=60) | st.text('{}[]":,~1dictenumodl ').map(str.encode))
def test_any_bytes_are_read_or_undecodable(data):
    try:
        loads(data)
    except Undecodable as error:
        assert error.advice  # noqa: PT017 - both outcomes are right


def test_a_new_field_with_a_default_is_filled_in_and_one_without_is_not():
    assert loads(b'{"~data":["tests.model.values:Plain",{"name":"a"}]}') == Plain("a")
    assert loads(b'{"~model":["tests.model.values:Order",{"id":"1","amount":2},["amount","id"],null,{}]}') == Order(
        id="1", amount=2
    )
    for data in (
        b'{"~data":["tests.model.values:Plain",{}]}',
        b'{"~data":["tests.model.values:Plain",{"name":"a","gone":1}]}',
        b'{"~model":["tests.model.values:Order",{"id":"1"},["id"],null,{}]}',
    ):
        with pytest.raises(Undecodable):
            loads(data)
