"""Annotations of any shape, each with a strategy for values of it."""

from __future__ import annotations

import operator
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, PydanticUserError, StringConstraints

from tests.model.values import (
    BERLIN,
    Box,
    Checked,
    Colour,
    Crate,
    Frozen,
    Level,
    Loose,
    Names,
    OldWord,
    Order,
    Pair,
    Plain,
    Point,
    Right,
    Row,
    Rush,
    Word,
    hashables,
    values,
)


class Typed(NamedTuple):
    """An annotation, and what makes values of it."""

    hint: Any
    values: st.SearchStrategy[Any]


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str = ""


class Tree(BaseModel):
    value: Any = None
    branches: list[Tree] = []


class Sparse(TypedDict, total=False):
    word: Word
    deep: dict[str, set[int]]


texts = st.one_of(st.text(st.characters(), max_size=6), st.sampled_from(["\ud800", "a\x00b", "~", '{"~', " ", "null"]))
floats = st.one_of(st.floats(), st.sampled_from([float("nan"), float("inf"), float("-inf"), -0.0]))
integers = st.one_of(st.integers(), st.sampled_from([2**63, -(2**64), 10**400, -(10**4000)]))
instants = st.one_of(st.datetimes(), st.datetimes(timezones=st.sampled_from([UTC, BERLIN])))
trees = st.recursive(
    st.builds(Tree, value=texts), lambda inner: st.builds(Tree, value=floats, branches=st.lists(inner, max_size=3))
)

HASHABLE = [
    Typed(int, integers),
    Typed(str, texts),
    Typed(bytes, st.binary(max_size=6)),
    Typed(bool, st.booleans()),
    Typed(float, floats),
    Typed(Decimal, st.one_of(st.decimals(allow_nan=False), st.sampled_from([Decimal("1.10"), Decimal("-0")]))),
    Typed(Fraction, st.fractions()),
    Typed(complex, st.complex_numbers()),
    Typed(UUID, st.uuids()),
    Typed(PurePosixPath, st.text("ab/.", max_size=4).map(PurePosixPath)),
    Typed(datetime, instants),
    Typed(date, st.dates()),
    Typed(time, st.times()),
    Typed(timedelta, st.timedeltas()),
    Typed(Colour, st.sampled_from(Colour)),
    Typed(Level, st.sampled_from(Level)),
    Typed(Word, st.sampled_from(Word)),
    Typed(OldWord, st.sampled_from(OldWord)),
    Typed(Right, st.sampled_from([Right(0), Right.READ, Right.READ | Right.WRITE])),
    Typed(Literal["a", 1, Word.YES], st.sampled_from(["a", 1, Word.YES])),
    Typed(Frozen, st.builds(Frozen, st.integers(), st.lists(st.integers(), max_size=2).map(tuple))),
    Typed(Point, st.builds(Point, st.integers(), floats)),
    Typed(Annotated[int, Field(ge=0)], integers),  # also what the constraint does not allow
    Typed(Annotated[str, StringConstraints(to_lower=True, strip_whitespace=True)], texts),
    Typed(Annotated[int, AfterValidator(operator.neg)], st.integers()),
]
LEAVES = [
    *HASHABLE,
    Typed(None, st.none()),
    Typed(Any, values),
    Typed(object, values),
    Typed(bytearray, st.binary(max_size=3).map(bytearray)),
    Typed(Order, st.builds(Order, id=texts, amount=st.integers(), at=st.none() | instants)),
    Typed(Order, st.builds(Rush, id=texts, amount=st.integers(), hours=st.integers())),
    Typed(Order, st.builds(Order.model_construct, id=values, amount=values)),  # never validated
    Typed(Plain, st.builds(Plain, texts, st.none() | instants, values)),
    Typed(Plain, st.builds(Plain, values, values, values)),
    Typed(Checked, st.builds(Checked, st.integers())),
    Typed(Loose, st.builds(Loose, value=values, more=values)),
    Typed(Names, st.builds(Names, st.lists(texts, max_size=2))),
    Typed(Row, st.fixed_dictionaries({"id": st.integers(), "tags": st.lists(texts, max_size=2)})),
    Typed(
        Sparse,
        st.fixed_dictionaries(
            {},
            optional={
                "word": st.sampled_from(Word),
                "deep": st.dictionaries(texts, st.sets(st.integers(), max_size=2), max_size=2),
            },
        ),
    ),
    Typed(Pair, st.builds(Pair, values, values)),
    Typed(Tree, trees),
    Typed(
        Annotated[Cat | Dog, Field(discriminator="kind")],
        st.one_of(st.builds(Cat, lives=st.integers()), st.builds(Dog, name=texts)),
    ),
    Typed(Cat | Dog, st.one_of(st.builds(Cat, lives=st.integers()), st.builds(Dog, name=texts))),
]


def _crate_of(hint: Any) -> Any:
    """A generic model of a type; before Python 3.12 pydantic makes none of the standard library's ``TypedDict``."""
    try:
        return Crate[hint]
    except PydanticUserError:
        return Crate


def _of_one(one: Typed) -> st.SearchStrategy[Typed]:
    hint, made = one
    lists = st.lists(made, max_size=3)
    mappings = st.dictionaries(texts, made, max_size=3)
    return st.sampled_from(
        [
            Typed(list[hint], lists),
            Typed(list[hint], lists.map(tuple)),  # not what was announced
            Typed(Sequence[hint], st.one_of(lists, lists.map(tuple))),
            Typed(tuple[hint, ...], lists.map(tuple)),
            Typed(deque[hint], st.builds(deque, lists, st.none() | st.integers(3, 5))),
            Typed(dict[str, hint], mappings),
            Typed(Mapping[str, hint], mappings),
            Typed(OrderedDict[str, hint], mappings.map(OrderedDict)),
            Typed(hint | None if hint is not None else None, st.none() | made),
            Typed(Annotated[list[hint], Field(max_length=2)], lists),
            Typed(Annotated[hint, Field(description="what it is")], made),
            Typed(Box[hint], made.map(Box)),
            Typed(_crate_of(hint), made.map(lambda value: _crate_of(hint).model_construct(content=value))),
            Typed(Crate, made.map(lambda value: Crate(content=value))),
        ]
    )


def _of_two(pair: tuple[Typed, Typed]) -> st.SearchStrategy[Typed]:
    (left, lefts), (right, rights) = pair
    return st.sampled_from(
        [
            Typed(tuple[left, right], st.tuples(lefts, rights)),
            Typed(left | right if left is not None else right, lefts | rights),
            Typed(right | left if right is not None else left, lefts | rights),
            Typed(list[left], st.lists(lefts | rights, max_size=3)),  # some of which are something else
        ]
    )


def _of_hashable(one: Typed) -> st.SearchStrategy[Typed]:
    return st.sampled_from(
        [
            Typed(set[one.hint], st.sets(one.values, max_size=3)),
            Typed(frozenset[one.hint], st.frozensets(one.values, max_size=3)),
            Typed(dict[one.hint, Any], st.dictionaries(one.values, values, max_size=2)),
            Typed(dict[one.hint, one.hint], st.dictionaries(hashables, one.values, max_size=2)),
        ]
    )


typed = st.recursive(
    st.one_of(st.sampled_from(LEAVES), st.sampled_from(HASHABLE).flatmap(_of_hashable)),
    lambda inner: st.one_of(inner.flatmap(_of_one), st.tuples(inner, inner).flatmap(_of_two)),
    max_leaves=4,
)
"""An annotation, nested or not, with a strategy for its values; some of which it does not fit."""
