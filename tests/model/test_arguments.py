from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from perdure.errors import NotSerializable, Undecodable
from perdure.model.arguments import LIMIT, Arguments, condense, is_condensed
from perdure.model.equality import same
from perdure.model.hints import volatile
from tests.model.seeds import said_under_hash_seeds
from tests.model.values import Order, values

INJECTED: Any = object()


def one(order: Order, count: int = 1, *, note: str = "") -> None: ...
def bare(x, y=2): ...
def variadic(first: int, /, *rest: int, flag: bool = False, **more: float) -> None: ...
def only_keywords(*, a: int, b: Any = None) -> None: ...
def positional(a: int, b: int = 2, /, c: int = 3) -> None: ...
def with_context(a: int, *, ctx: Any = INJECTED) -> None: ...
def chatty(prompt: str, seed: Annotated[int, volatile] = 0, trace: Annotated[Any, volatile] = None) -> None: ...


CALLS = [
    (one, (Order(id="1", amount=2),), {}),
    (one, (Order(id="1", amount=2), 5), {"note": "x"}),
    (one, (), {"order": {"a": (1,)}}),
    (one, (Order(id="1", amount=2),), {"note": "\ud800"}),
    (bare, (1,), {}),
    (bare, (), {"y": 1, "x": [2]}),
    (bare, ({1: (2, 3)}, None), {}),
    (variadic, (1,), {}),
    (variadic, (1, 2, 3), {"flag": True, "z": 1.5, "a": 2}),
    (variadic, (1, (2,)), {"first": 9.0}),
    (variadic, (1,), {"üb": 1.0}),
    (only_keywords, (), {"a": 1}),
    (only_keywords, (), {"b": {1}, "a": 1}),
    (positional, (1,), {"c": 9}),
    (positional, (1, 2), {}),
    (positional, (1, 2, 4), {}),
    (chatty, ("x",), {"trace": (1,)}),
]


def call(fn, args, kwargs):
    """What a call means: its arguments by parameter."""
    return Arguments(fn).hints.signature.bind(*args, **kwargs).arguments


@pytest.mark.parametrize(
    ("fn", "args", "kwargs"), CALLS, ids=[f"{i}-{fn.__name__}" for i, (fn, _, _) in enumerate(CALLS)]
)
def test_what_is_read_back_is_the_same_call(fn, args, kwargs):
    arguments = Arguments(fn)
    prepared = arguments.prepare(args, kwargs)
    json.loads(prepared.data)
    for again in (prepared[1:], arguments.decode(prepared.data)):
        assert same(call(fn, *again), call(fn, args, kwargs))
    assert arguments.encode(*prepared[1:]) == prepared.data
    assert arguments.same(prepared.data, prepared.data)


@given(values, values)
def test_untyped_arguments_come_back_as_they_were(x, y):
    arguments = Arguments(bare)
    assert same(arguments.decode(arguments.encode((x, y), {})), ((x, y), {}))
    assert arguments.encode((x,), {"y": y}) == arguments.encode((), {"y": y, "x": x}) == arguments.encode((x, y), {})


def test_the_form_of_the_bytes_is_part_of_the_format():
    assert (
        Arguments(one).encode((Order(id="1", amount=2),), {"note": "n"})
        == b'{"order":{"id":"1","amount":2,"at":null},"note":"n"}'
    )
    assert Arguments(bare).encode(((1,),), {}) == b'{"x": {"~tuple":[1]}}'
    assert Arguments(variadic).encode((1, 2), {"z": 1.5}) == b'{"first":1,"rest":[2],"more":{"z":1.5}}'
    assert Arguments(bare).encode((1,), {}) == b'{"x":1}'


def test_bodies_get_copies_of_what_can_change():
    order, items = Order(id="1", amount=2), [1]
    prepared = Arguments(bare).prepare((items,), {"y": items})
    assert prepared.args[0] == items
    assert prepared.args[0] is not items
    assert Arguments(one).prepare((order,), {}).args[0] is not order


@pytest.mark.parametrize(
    ("fn", "args", "kwargs"),
    [
        (one, (), {}),
        (one, (1, 2, 3), {}),
        (one, (1,), {"x": 1}),
        (one, (1,), {"order": 1}),
        (only_keywords, (1,), {}),
        (variadic, (), {}),
        (positional, (), {"a": 1}),
        (only_keywords, (), {}),
    ],
)
def test_a_call_that_python_refuses_is_a_type_error_here_too(fn, args, kwargs):
    with pytest.raises(TypeError):
        fn(*args, **kwargs)
    with pytest.raises(TypeError, match=fn.__name__):
        Arguments(fn).prepare(args, kwargs)


def test_the_path_of_an_unstorable_argument_begins_with_its_parameter():
    for fn, args, kwargs, path in [
        (bare, ([1, object()],), {}, "x[1]"),
        (one, (), {"order": {"a": object()}}, "order.a"),
        (variadic, (1, 2, object()), {}, "rest[1]"),
        (variadic, (1,), {"z": object()}, "more.z"),
        (variadic, (1,), {"\ud800": 1.0}, "more"),
    ]:
        with pytest.raises(NotSerializable) as caught:
            Arguments(fn).encode(args, kwargs)
        assert caught.value.path == path


def test_injected_parameters_and_self_are_not_recorded():
    arguments = Arguments(with_context, injected=INJECTED)
    assert arguments.encode((1,), {}) == b'{"a":1}'
    assert arguments.prepare((1,), {"ctx": 5}) == (b'{"a":1}', (1,), {"ctx": 5})

    class Service:
        def work(self, x: int) -> None: ...

    assert (
        Arguments(Service.work, skip_first=True).encode((7,), {})
        == Arguments(Service().work).encode((7,), {})
        == b'{"x":7}'
    )


# -- comparing ------------------------------------------------------------------------------------


def test_a_new_parameter_with_a_default_is_no_drift_and_another_value_is():
    def before(x: int) -> None: ...
    def after(x: int, mode: str = "fast") -> None: ...

    recorded, now = Arguments(before), Arguments(after)
    assert now.same(recorded.encode((1,), {}), now.encode((1,), {}))
    assert now.same(recorded.encode((1,), {}), now.encode((1, "fast"), {}))
    assert not now.same(recorded.encode((1,), {}), now.encode((1, "slow"), {}))
    assert not recorded.same(now.encode((1, "slow"), {}), recorded.encode((1,), {}))


def test_a_model_that_gained_an_optional_field_is_no_drift():
    class Before(BaseModel):
        id: str

    class After(BaseModel):
        id: str
        urgent: bool = False

    def old(order: Before) -> None: ...
    def new(order: After) -> None: ...

    old.__annotations__, new.__annotations__ = {"order": Before}, {"order": After}
    recorded = Arguments(old).encode((Before(id="1"),), {})
    assert Arguments(new).same(recorded, Arguments(new).encode((After(id="1"),), {}))
    assert not Arguments(new).same(recorded, Arguments(new).encode((After(id="1", urgent=True),), {}))
    assert not Arguments(new).same(b'{"order":{"name":"1"}}', Arguments(new).encode((After(id="1"),), {}))


def test_keywords_in_another_order_are_the_same_call():
    arguments = Arguments(variadic)
    assert arguments.same(arguments.encode((1,), {"a": 1.5, "b": 2.5}), arguments.encode((1,), {"b": 2.5, "a": 1.5}))
    assert not arguments.same(arguments.encode((1,), {"a": 1.5}), arguments.encode((1,), {"a": 2.5}))
    assert arguments.same(b'{"first":1,"rest":[]}', arguments.encode((1,), {}))


def test_volatile_parameters_are_never_compared():
    arguments = Arguments(chatty)
    first = arguments.encode(("hi", 1), {})
    for other in [("hi", 2), ("hi",), ("hi", 1, {"a": (1,)})]:
        assert arguments.same(first, arguments.encode(other, {}))
    assert not arguments.same(first, arguments.encode(("ho", 1), {}))


def test_long_arguments_are_kept_as_head_and_hash_and_still_compared():
    arguments = Arguments(chatty)
    long = arguments.encode(("é" * 5000, 1), {})
    short = arguments.condense(long)
    assert len(short) <= LIMIT < len(long)
    assert is_condensed(short)
    assert arguments.condense(short) == short
    assert len(condense(long)) <= LIMIT
    assert "é" * 50 in json.loads(short)[2]
    assert arguments.same(short, long)
    assert arguments.same(short, arguments.encode(("é" * 5000, 2), {}))
    assert arguments.same(short, arguments.condense(arguments.encode(("é" * 5000,), {"trace": "t" * 9000})))
    assert not arguments.same(short, arguments.encode(("é" * 4999, 1), {}))
    assert not arguments.same(short, arguments.condense(arguments.encode(("é" * 5001, 1), {})))
    with pytest.raises(Undecodable, match="head and hash"):
        arguments.decode(short)


def test_a_long_volatile_argument_alone_does_not_condense_the_rest():
    arguments = Arguments(chatty)
    kept = arguments.condense(arguments.encode(("hi",), {"trace": "t" * 9000}))
    assert kept == b'{"prompt":"hi"}'
    assert arguments.same(kept, arguments.encode(("hi",), {"trace": "u" * 9000}))


@given(st.sampled_from(['"', "\\", "\x00", "🎉", "é"]), st.integers(0, 3000))
def test_a_condensed_record_never_exceeds_the_limit(char, size):
    assert len(condense(Arguments(bare).encode((char * size,), {}))) <= LIMIT


# -- damage ---------------------------------------------------------------------------------------


@given(st.data())
def test_damaged_bytes_are_decoded_or_undecodable_and_never_taken_for_something_else(data):
    fn, args, kwargs = data.draw(st.sampled_from(CALLS))
    arguments = Arguments(fn)
    raw = bytearray(arguments.encode(args, kwargs))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    arguments.same(bytes(raw), arguments.encode(args, kwargs))
    try:
        again = arguments.decode(bytes(raw))
    except Undecodable:
        return
    call(fn, *again)


@given(st.binary(max_size=40) | st.text('{}[]":, x1firstresmo').map(str.encode))
def test_any_bytes_are_decoded_or_undecodable(raw):
    for fn in (variadic, bare):
        assert Arguments(fn).same(raw, b"") is (raw == b"")
        try:
            Arguments(fn).decode(raw)
        except Undecodable:
            continue


@pytest.mark.parametrize(
    "raw", [b"{}", b'{"y":1}', b'{"z":1}', b'{"x":1,}', b'{"x":1', b'{"x" 1}', b"{1:2}", b"[1]", b'{"x":1}{"y":2}', b""]
)
def test_what_is_no_record_of_this_function_is_undecodable(raw):
    with pytest.raises(Undecodable) as caught:
        Arguments(bare).decode(raw)
    assert caught.value.advice


def test_a_long_set_is_the_same_argument_in_every_process():
    code = (
        "from perdure.model.arguments import Arguments\n"
        "def step(tags: set[str]): ...\n"
        "made = Arguments(step)\n"
        "print(made.condense(made.encode(({f'tag-{number}' for number in range(200)},), {})).decode())"
    )
    assert len(said_under_hash_seeds(code)) == 1
