from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PrivateAttr, SecretBytes, SecretStr

from perdure import secret
from perdure.errors import Undecodable
from perdure.model.arguments import LIMIT, Arguments
from perdure.model.codec import ValueCodec
from perdure.model.equality import same
from perdure.model.secrecy import concealed, has_mark, has_secrets, unsealed
from perdure.model.upcasting import value_codec
from perdure.shown import value as shown

T = TypeVar("T")
SECRET = "hunter2"  # noqa: S105 - it is to be seen nowhere
Text = Annotated[str, secret]


class Deep(BaseModel):
    key: Annotated[str, Field(max_length=99), secret, Field(min_length=1)]
    count: int = 1
    _kept: Text = PrivateAttr(default="")


class Wide(Deep):
    more: Text = SECRET


@dataclass
class Flat:
    key: Text
    parts: list[Text] = field(default_factory=list)
    note: str = "seen"


class Held(TypedDict):
    key: Text


class Pair(NamedTuple):
    key: Text
    note: str = "seen"


class Crate(BaseModel, Generic[T]):
    content: T


class Account(BaseModel):
    password: SecretStr
    raw: SecretBytes = SecretBytes(b"")
    key: Text = "x"


def private(text):
    deep = Deep(key="k")
    deep._kept = text
    return deep


LEAVES: list[tuple[Any, Any]] = [
    (Text, lambda s: s),
    (Text | int, lambda s: s),
    (Annotated[bytes, secret], lambda s: s.encode()),
    (Annotated[bytes, secret], lambda s: s.encode() + b"\xff"),
    (Annotated[set[str], secret], lambda s: {s, "a", "b"}),
    (Annotated[dict[str, list[str]], secret], lambda s: {s: [s]}),
    (Annotated[object, secret], lambda s: (s,)),
    (Annotated[Any, secret], lambda s: {"~secret": s}),
    (dict[Text, int], lambda s: {s: 1}),
    (Deep, lambda s: Deep(key=s)),
    (Deep, private),
    (Deep, lambda s: Wide(key="k", more=s)),
    (Any, lambda s: Wide(key="k", more=s)),
    (Flat, lambda s: Flat(s, [s])),
    (Any, lambda s: Flat("k", [s])),
    (Held, lambda s: {"key": s}),
    (Pair, Pair),
    (Any, Pair),
    (Crate[Text], lambda s: Crate[Text](content=s)),
    (Crate[Deep], lambda s: Crate[Deep](content=Deep(key=s))),
    (SecretStr, SecretStr),
    (Any, SecretStr),
    (SecretBytes, lambda s: SecretBytes(s.encode())),
    (Account, lambda s: Account(password=s, raw=s.encode(), key=s)),
    (Account | Deep | None, lambda s: Account(password=s)),
]
WRAPS: list[tuple[Any, Any]] = [
    (lambda hint: list[hint], lambda v: [v]),
    (lambda hint: dict[str, hint], lambda v: {"a": v}),
    (lambda hint: hint | None, lambda v: v),
    (lambda hint: tuple[int, hint], lambda v: (1, v)),
    (lambda hint: Annotated[hint, Field(description="seen")], lambda v: v),
]
places = st.tuples(st.sampled_from(LEAVES), st.lists(st.sampled_from(WRAPS), max_size=3))


def at_place(place, text):
    """An annotation that marks something in it, and a value of it that holds a text there."""
    (hint, make), wraps = place
    value = make(text)
    for wrap, hold in wraps:
        if hint is Any:
            continue
        hint, value = wrap(hint), hold(value)
    return hint, value


@given(places, st.sampled_from([SECRET, f'{SECRET}"\t{{"~secret":"{SECRET}', f"{SECRET}\u2028"]))
def test_what_is_marked_comes_back_as_it_was_and_is_not_shown(place, text):
    hint, value = at_place(place, text)
    codec = ValueCodec(hint)
    data, back = codec.roundtrip(value)
    assert same(value, back)
    assert same(value, codec.decode(data))
    json.loads(data)
    told = {SECRET, b64encode(SECRET.encode())[:-4].decode()}
    assert any(one in data.decode() for one in told)
    assert not any(one in json.dumps(shown(data)) for one in told)
    for size in range(len(data)):  # of whatever is cut off, too
        assert SECRET.encode() not in concealed(data[:size])


def call(token: Text, order: Deep, *, note: str = "", key: Annotated[str, secret] = "") -> None: ...
def plain(token: str, order: Deep, *, note: str = "", key: str = "") -> None: ...


@pytest.mark.parametrize("size", [1, LIMIT, 2 * LIMIT])
def test_arguments_are_the_same_whether_they_are_marked_or_not(size):
    marked, unmarked = Arguments(call), Arguments(plain)
    for order in (Deep(key="k"), Wide(key="k")):
        args, kwargs = (SECRET, order), {"note": "n" * size, "key": SECRET}
        one, other = marked.condense(marked.encode(args, kwargs)), unmarked.condense(unmarked.encode(args, kwargs))
        assert SECRET not in json.dumps(shown(one))
        assert SECRET in other.decode()
        for arguments in (marked, unmarked):
            assert arguments.same(one, other)
            assert arguments.same(other, one)
        else_ = marked.condense(marked.encode(("else", order), kwargs))
        assert not marked.same(other, else_)
    assert marked.decode(marked.encode((SECRET, Deep(key="k")), {}))[0] == (SECRET, Deep(key="k"))


def test_marks_come_and_go_and_pydantic_writes_for_others_as_ever():
    with_mark, without = ValueCodec(list[Text]), ValueCodec(list[str])
    for one, other in ((with_mark, without), (without, with_mark)):
        assert other.decode(one.encode([SECRET])) == [SECRET]
    assert Deep(key=SECRET).model_dump_json() == f'{{"key":"{SECRET}","count":1}}'
    assert value_codec(int, len).decode(with_mark.encode([SECRET, SECRET])) == 2
    assert ValueCodec(int | None).encode(None) == b"null"
    assert not has_secrets(ValueCodec(dict[str, str]).encode({"a": '{"~secret":'}))
    unmarked = ValueCodec(dict[str, str])
    assert unmarked.decode(unmarked.encode({"~secret": "x"})) == {"~secret": "x"}
    assert not has_mark(Literal["secret"])
    with pytest.raises(Undecodable):
        unsealed(b'\t{"~secret":1,"b":2}')
