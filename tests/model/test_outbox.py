"""Entries of outboxes: what is written comes back whole, and what was changed is found out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import IntegrityError
from perdure.model import payloads
from perdure.model.outbox import Entry, read_entry, run_entry, signal_entry
from perdure.model.records import InboxKind, Message, NewRun, Reuse

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INSTANTS = st.integers(-(2**62), 2**62)
DATA = st.one_of(st.binary(max_size=50), st.just(b"x" * (payloads.INLINE + 1)))


@st.composite
def runs(draw: st.DrawFn) -> NewRun:
    codec, stored, artifact = payloads.pack(draw(DATA))
    return NewRun(
        run_id=draw(TEXTS), uid=draw(st.binary(min_size=16, max_size=16)), workflow=draw(TEXTS), version=draw(TEXTS),
        created_at=draw(INSTANTS), codec=codec, payload=stored, artifacts=() if artifact is None else (artifact,),
        origin=draw(TEXTS).encode(), namespace=draw(TEXTS), queue=draw(TEXTS), delay_until=draw(st.none() | INSTANTS),
        priority=draw(st.integers(-1000, 1000)), partition=draw(st.none() | TEXTS),
        idempotency_key=draw(st.none() | TEXTS), deadline_at=draw(st.none() | INSTANTS),
        meta=draw(st.none() | TEXTS.map(str.encode)),
        reuse=draw(st.none() | st.builds(Reuse, st.none() | INSTANTS, st.booleans(), st.none() | INSTANTS)),
    )  # fmt: skip


@st.composite
def signals(draw: st.DrawFn) -> Message:
    codec, stored, artifact = payloads.pack(draw(DATA))
    return Message(
        InboxKind.SIGNAL, run_id=draw(TEXTS), namespace=draw(TEXTS), name=draw(TEXTS), codec=codec, payload=stored,
        dedup=draw(TEXTS), artifacts=() if artifact is None else (artifact,),
    )  # fmt: skip


def entry_of(asked: NewRun | Message, store: str) -> Entry:
    return run_entry(asked, store) if isinstance(asked, NewRun) else signal_entry(asked, store)


@given(runs() | signals(), TEXTS)
def test_what_is_written_is_what_is_read(asked: NewRun | Message, store: str) -> None:
    assert read_entry(entry_of(asked, store), store) == asked


@given(runs() | signals(), st.sampled_from(Entry._fields), TEXTS)
def test_a_changed_entry_or_one_for_another_store_is_found_out(asked: NewRun | Message, field: str, store: str) -> None:
    entry = entry_of(asked, store)
    other = entry.run + "x" if field == "run" else entry.kind + 1 if field == "kind" else getattr(entry, field) + b"x"
    changed = entry._replace(**{field: other})
    for wrong, where in ((changed, store), (entry, store + "x")):
        with pytest.raises(IntegrityError, match="not what was written"):
            read_entry(wrong, where)


def test_a_changed_byte_is_found_out() -> None:
    entry = signal_entry(Message(InboxKind.SIGNAL, run_id="r", name="paid", payload=b"1", dedup="d"), "store")
    with pytest.raises(IntegrityError, match="not what was written"):
        read_entry(entry._replace(payload=b"2"), "store")
