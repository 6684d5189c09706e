"""Columns of a batch arrive as they were sent."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.store.postgres.address import parse_address
from perdure.store.postgres.arrays import bigints, byteas, nullable_bigints, texts
from perdure.store.postgres.connect import Connector
from perdure.store.postgres.session import Session

pytestmark = pytest.mark.postgres
BIG = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(scope="module")
def back(postgres_base):
    """What sends a column to a server and gets it back."""
    connector = Connector(parse_address(postgres_base), "process")
    texts = {kind: f"SELECT $1::{kind}[]".encode() for kind in ("bigint", "bytea", "text")}
    session = Session(connector.open(), texts, prepares=True)
    yield lambda column, kind: session.fetch_value(kind, column)
    session.connection.close()


@given(st.lists(BIG, max_size=50))
def test_numbers(back, values):
    assert back(bigints(values), "bigint") == values
    assert back(nullable_bigints(values), "bigint") == values


@given(st.lists(st.none() | BIG, max_size=50))
def test_numbers_and_nulls(back, values):
    assert back(nullable_bigints(values), "bigint") == values


@given(st.lists(st.none() | st.binary(max_size=100), max_size=50))
def test_bytes(back, values):
    assert back(byteas(values), "bytea") == values


@given(st.lists(st.none() | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=100), max_size=50))
def test_texts(back, values):
    assert back(texts(values), "text") == values


@pytest.mark.parametrize(
    ("encode", "values"),
    [
        (bigints, [1, None]), (bigints, ["1"]), (bigints, [2**63]), (nullable_bigints, [None, 2**63]),
        (byteas, [b"", "text"]), (byteas, [{"no": "bytes"}]), (texts, [b"bytes"]), (texts, ["\ud800"]),
    ],
)  # fmt: skip
def test_what_is_no_such_value_is_refused_before_anything_is_sent(encode, values):
    with pytest.raises((struct.error, TypeError, AttributeError, UnicodeEncodeError)):
        encode(values)
