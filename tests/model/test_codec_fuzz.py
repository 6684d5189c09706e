"""Any value under any annotation comes back as it was or is refused; any bytes are a value or undecodable."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import threading
from collections import OrderedDict, deque
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.errors import NotSerializable, StepFailed, Undecodable
from perdure.model.codec import ValueCodec
from perdure.model.equality import same
from perdure.model.failures import decode_failure, encode_failure, failure_text
from perdure.model.tagged import dumps
from tests.model.test_failures import BATCH, Coded, Exiting, Holding, Irreducible, Keyed, Mute, Rejected, Slotted
from tests.model.typed import LEAVES, Tree, Typed, texts, typed
from tests.model.values import Box, Crate, Frozen, Loose, Order, Pair, Plain, values

STORM = bool(os.environ.get("PERDURE_STORM"))

pytestmark = pytest.mark.timeout(600 if STORM else 60)


def tries(few: int) -> settings:
    return settings(max_examples=few * 30 if STORM else few)


def is_refused(value: object) -> bool:
    """Whether a value that has no annotation is refused."""
    try:
        dumps(value)
    except NotSerializable:
        return True
    return False


# -- values


@tries(150)
@given(typed, st.data())
def test_a_value_under_any_annotation_comes_back_as_it_was_or_is_refused(one, data):
    hint, made = one
    value = data.draw(made)
    before = copy.deepcopy(value)
    codec = ValueCodec(hint)
    refused = None
    try:
        raw, back = codec.roundtrip(value)
    except NotSerializable as error:
        refused = error
    if refused is not None:
        # A generic class of a parametrised type has no name to be found by; nothing else in here is refused.
        assert "Crate[" in repr(hint) or is_refused(value)
        assert refused.path.startswith("$")
        assert refused.type
        assert refused.advice
        return
    assert same(value, before)
    assert same(value, back) or (is_refused(value) and same(value, back, loose=True))
    assert same(codec.decode(raw), back)
    assert same(ValueCodec(hint).decode(raw), back)
    again, _ = codec.roundtrip(back)
    assert again == raw
    json.loads(raw)


@tries(100)
@given(typed, values)
def test_a_value_under_an_annotation_of_something_else_comes_back_as_it_was(one, value):
    raw, back = ValueCodec(one.hint).roundtrip(value)
    assert same(value, back)
    assert same(ValueCodec(one.hint).decode(raw), back)


class Wrapper(list):
    """A subclass, which would come back as a list."""


UNSTORABLE = [lambda: 0, object(), threading.Lock(), Wrapper([1]), type, iter([]), Holding("x"), open, NotImplemented]


def inside(planted: st.SearchStrategy[tuple[Any, str]]) -> st.SearchStrategy[tuple[Any, str]]:
    """Something that holds what it is given, with the path to it."""

    def of(make: Any) -> st.SearchStrategy[tuple[Any, str]]:
        return st.tuples(planted, values, st.integers(0, 2)).map(make)

    def among(kind: Any) -> Any:
        return lambda of: (kind([*[of[1]] * of[2], of[0][0], of[1]]), f"[{of[2]}]{of[0][1]}")

    return st.one_of(
        of(among(list)),
        of(among(tuple)),
        of(among(deque)),
        of(lambda of: ({"a": of[1], "b": of[0][0]}, f".b{of[0][1]}")),
        of(lambda of: ({"~tuple": of[0][0]}, f"['~tuple']{of[0][1]}")),
        of(lambda of: ({None: of[1], 7: of[0][0]}, f"[7]{of[0][1]}")),
        of(lambda of: (OrderedDict(x=of[0][0]), f".x{of[0][1]}")),
        of(lambda of: (Pair(of[1], of[0][0]), f"[1]{of[0][1]}")),
        of(lambda of: (Plain("p", extra=of[0][0]), f".extra{of[0][1]}")),
        of(lambda of: (Loose(value=of[0][0]), f".value{of[0][1]}")),
        of(lambda of: (Loose(value=of[1], more=of[0][0]), f".more{of[0][1]}")),
        of(lambda of: (Box(of[0][0]), f".content{of[0][1]}")),
        of(lambda of: (Crate(content=of[0][0]), f".content{of[0][1]}")),
        of(lambda of: (Tree(branches=[Tree(), Tree(value=of[0][0])]), f".branches[1].value{of[0][1]}")),
    )


planted = st.recursive(st.sampled_from(UNSTORABLE).map(lambda value: (value, "")), inside, max_leaves=4)


@tries(100)
@given(
    planted, st.sampled_from([Any, object, list[Any], dict[str, Any], Plain, Loose, Box, Tree, Order, int, str | None])
)
@example(({7: {"~tuple": object()}}, "[7]['~tuple']"), Any)
def test_what_cannot_be_stored_is_refused_with_the_path_to_it_wherever_it_is(planted, hint):
    value, path = planted
    with pytest.raises(NotSerializable) as caught:
        ValueCodec(hint).roundtrip(value)
    assert caught.value.path == f"${path}"
    assert caught.value.advice


# -- bytes

REFERENCES = [
    "tests.model.values:Plain", "tests.model.values:Frozen", "tests.model.values:Pair", "tests.model.values:Point",
    "tests.model.values:Order", "tests.model.values:Loose", "tests.model.values:Crate", "tests.model.values:Colour",
    "tests.model.values:Colour.RED", "tests.model.values:Right", "tests.model.values:Late", "tests.model.values:Names",
    "tests.model.values:values", "tests.model.values", "tests.model.values:", ":", "builtins:int", "builtins:dict",
    "builtins:type", "builtins:object", "enum:Enum", "enum:Flag", "pydantic.main:BaseModel", "os:system", "os:abort",
    "typing:Generic", "datetime:datetime", "collections:Counter", "sys:modules", "__main__:x", "builtins:SystemExit",
]  # fmt: skip
TAGS = [
    "str", "int", "float", "bytes", "bytearray", "complex", "decimal", "fraction", "uuid", "range", "path", "date",
    "time", "datetime", "timedelta", "tuple", "set", "frozenset", "deque", "dict", "ordereddict", "counter",
    "defaultdict", "enum", "flag", "named", "data", "model", "unheard", "",
]  # fmt: skip
plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=4),
    st.sampled_from(REFERENCES), st.sampled_from(["1e999999", "-0x7", "NaN", "sNaN", "Europe/Berlin", "2026-02-30"]),
    st.sampled_from(["1/0", "24:00:00", "PosixPath", "P1D", "ff", "A", "READ", "content", "value", "name"]),
    st.sampled_from([0, -1, 10**9, 10**30, 10**400, 1e308, -86_400_000_000, 86_399_999_999]),
)  # fmt: skip
nodes = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["name", "extra", "value", "id", "amount", "key", "x", "~x"]), inner, max_size=3
        ),
        st.tuples(st.sampled_from(TAGS), inner).map(lambda pair: {f"~{pair[0]}": pair[1]}),
        st.tuples(st.sampled_from(TAGS[-9:]), st.sampled_from(REFERENCES), inner).map(
            lambda parts: {f"~{parts[0]}": [parts[1], parts[2]]}
        ),
        st.tuples(st.sampled_from(REFERENCES) | st.lists(st.sampled_from(REFERENCES), max_size=2), inner, inner).map(
            lambda parts: {"~model": [parts[0], {"value": parts[1]}, ["value"], None, {"_secret": parts[2]}]}
        ),
    ),
    max_leaves=10,
)
HINTS = [one.hint for one in LEAVES] + [list[Order], dict[str, Any], Crate[int], Frozen | None, tuple[int, str]]


def decoded(hint: Any, raw: bytes) -> None:
    """Decode bytes, and see that what comes of them is a value like any other: stored, or refused."""
    with contextlib.suppress(Undecodable, NotSerializable):
        value = ValueCodec(hint).decode(raw)
        back, copied = ValueCodec(hint).roundtrip(value)
        assert same(value, copied, loose=True)
        assert same(ValueCodec(hint).decode(back), copied)


@tries(300)
@given(nodes, st.sampled_from(HINTS), st.booleans())
def test_any_json_is_a_value_or_undecodable(node, hint, has_tags):
    raw = json.dumps(node, ensure_ascii=True).encode()
    decoded(hint, b" " + raw if has_tags else raw)


@tries(100)
@given(typed, st.data())
def test_damaged_bytes_are_a_value_or_undecodable_under_any_annotation(one, data):
    """A byte changed, taken out or put in, or a part cut off or said twice."""
    try:
        raw = ValueCodec(one.hint).encode(data.draw(one.values))
    except NotSerializable:
        return
    at = data.draw(st.integers(0, len(raw)))
    to = data.draw(st.integers(at, len(raw)))
    raw = (
        raw[:at]
        + data.draw(st.sampled_from([b"", raw[at:to] * 2, b"\x00", b"~", b'"', b"]", b"\xff", b" "]))
        + raw[to:]
    )
    decoded(one.hint, raw)


OPENINGS = {
    "list": ("[", "]"),
    "dict": ('{"a":', "}"),
    "tree": ('{"branches":[', "]}"),
    "tuple": ('{"~tuple":[', "]}"),
    "frozenset": ('{"~frozenset":[', "]}"),
    "dict key": ('{"~dict":[[', ",1]]}"),
    "data": ('{"~data":["tests.model.values:Plain",{"name":', "}]}"),
    "failure": ('{"type":"t","text":"","traceback":"","cause":', "}"),
}


@pytest.mark.parametrize("depth", [150, 199, 900, 3000, 100_000])
@pytest.mark.parametrize("opening", OPENINGS)
def test_bytes_nested_however_deep_are_a_value_or_undecodable(opening, depth):
    left, right = OPENINGS[opening]
    for core in ("", "1", "null", '{"type":"t","text":"","traceback":""}'):
        for text in (left * depth + core + right * depth, left * depth):
            for raw in (text.encode(), b" " + text.encode()):
                for hint in (Any, list[Any], Tree, Order, dict[str, dict[str, Any]], Plain):
                    with contextlib.suppress(Undecodable):
                        ValueCodec(hint).decode(raw)
                for read in (decode_failure, failure_text):
                    with contextlib.suppress(Undecodable):
                        read(raw)


@pytest.mark.parametrize("length", [4301, 1_000_000])
@pytest.mark.parametrize("hint", [Any, int, float, Order, list[int], dict[int, Any]])
def test_numbers_however_long_are_a_value_or_undecodable(hint, length):
    for text in ("9" * length, "1e" + "9" * length, "0." + "3" * length, "-" + "0" * length, '{"9": ' + "9" * length):
        for raw in (text.encode(), b"[" + text.encode() + b"]", b' {"~int":"0x' + b"f" * length + b'"}'):
            with contextlib.suppress(Undecodable):
                ValueCodec(hint).decode(raw)


# -- exceptions

kinds = st.sampled_from(
    [ValueError, Rejected, KeyError, OSError, Slotted, Irreducible, Mute, Exiting, KeyboardInterrupt]
)
alone = st.one_of(
    st.tuples(kinds, st.lists(values, max_size=2)).map(lambda pair: pair[0](*pair[1])),
    st.tuples(st.integers(), texts).map(lambda pair: Coded(*pair)),
    texts.map(lambda text: Keyed(order=text)),
    texts.map(Holding),
    st.just(BATCH).map(copy.copy),
)


def with_links(
    parts: tuple[BaseException, BaseException | None, BaseException | None, list[str], bool],
) -> BaseException:
    """An exception with a cause, a context and notes."""
    error, cause, context, notes, suppress = parts
    error.__cause__, error.__context__, error.__suppress_context__ = cause, context, suppress
    for note in notes:
        error.add_note(note)
    return error


errors = st.recursive(
    alone,
    lambda inner: st.one_of(
        st.tuples(alone, st.none() | inner, st.none() | inner, st.lists(texts, max_size=2), st.booleans()).map(
            with_links
        ),
        st.tuples(texts, st.lists(inner, min_size=1, max_size=3)).map(lambda pair: BaseExceptionGroup(*pair)),
    ),
    max_leaves=5,
)


def agrees(error: BaseException | None, back: BaseException | None) -> bool:
    """Whether one stands for the other: equal, or told of by a ``StepFailed``, and so what they came from."""
    if error is None or back is None:
        return error is back
    if type(back) is StepFailed and type(error) is not StepFailed:
        assert back.type.endswith(type(error).__name__)
    else:
        assert type(back) is type(error)
        assert isinstance(error, BaseExceptionGroup) or same(back.args, error.args)
        assert getattr(back, "__notes__", []) == getattr(error, "__notes__", [])
    return (
        back.__suppress_context__ is error.__suppress_context__
        and agrees(error.__cause__, back.__cause__)
        and agrees(error.__context__, back.__context__)
    )


@tries(150)
@given(errors)
def test_an_exception_with_all_it_came_from_comes_back_or_is_told_of(error):
    raw = encode_failure(error)
    back = decode_failure(raw)
    assert agrees(error, back)
    assert isinstance(back, Exception)
    line = failure_text(raw)
    assert "\n" not in line
    assert len(line) <= 300
    # What came back is what comes back from then on.
    again = decode_failure(encode_failure(back))
    assert type(again) is type(back)
    assert agrees(back, again)


CLASSES = [
    "builtins:ValueError", "builtins:ExceptionGroup", "builtins:SystemExit", "builtins:StopIteration",
    "builtins:KeyboardInterrupt", "tests.model.test_failures:Explosive", *REFERENCES,
]  # fmt: skip
inner_json = st.one_of(nodes.map(json.dumps), plain)
REBUILDING = st.fixed_dictionaries(
    {},
    optional={
        "class": st.sampled_from(CLASSES),
        "way": st.sampled_from(["call", "bare", "group", "other"]),
        "args": inner_json | st.sampled_from(['{"~tuple":[]}', '{"~tuple":["x"]}', "{", "5"]),
        "state": inner_json | st.sampled_from(["{}", '{"__class__":1}', '{"args":3}', "["]),
    },
)
failures = st.recursive(
    plain,
    lambda inner: st.fixed_dictionaries(
        {"type": st.text(max_size=5), "text": st.text(max_size=5), "traceback": st.just("")},
        optional={
            "notes": st.lists(plain, max_size=2) | plain,
            "members": st.lists(inner, max_size=2) | plain,
            "omitted": plain,
            "suppress": plain,
            "rebuild": REBUILDING | plain,
            "cause": inner,
            "context": inner,
        },
    ),
    max_leaves=6,
)


@tries(300)
@given(failures | nodes | st.binary(max_size=30), st.booleans())
def test_any_bytes_are_a_failure_or_undecodable(node, has_tags):
    raw = node if isinstance(node, bytes) else json.dumps(node).encode()
    with contextlib.suppress(Undecodable):
        back = decode_failure(b" " + raw if has_tags else raw)
        assert isinstance(back, Exception)
        assert isinstance(decode_failure(encode_failure(back)), Exception)
    with contextlib.suppress(Undecodable):
        assert isinstance(failure_text(raw), str)


def test_every_shape_of_annotation_is_among_those_tried():
    assert all(isinstance(one, Typed) for one in LEAVES)
