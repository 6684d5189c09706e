"""Keys that payloads are encrypted with: kept as they are given, and wrapped anew only if nobody was quicker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.records import StoredKey
from perdure.testing.store_suite.bench import case

if TYPE_CHECKING:
    from perdure.testing.store_suite.bench import Bench

_OLD = StoredKey(b"\x01" * 8, "first", b"\x00wrapped\xff", 1_000)


@case
def keys_are_kept_and_read_the_oldest_first(bench: Bench) -> None:
    """Whatever their bytes, and in whatever order they were added."""
    store = bench.store
    assert store.read_keys() == []
    newer = StoredKey(b"\x00" * 8, "first", b"other", 2_000)
    store.add_key(newer)
    store.add_key(_OLD)
    assert store.read_keys() == [_OLD, newer]


@case
def a_key_is_added_once(bench: Bench) -> None:
    """What is sent again changes nothing."""
    store = bench.store
    store.add_key(_OLD)
    store.add_key(_OLD)
    store.add_key(_OLD._replace(master="another", wrapped=b"another"))
    assert store.read_keys() == [_OLD]


@case
def a_key_is_wrapped_anew_if_it_is_as_it_was_seen(bench: Bench) -> None:
    """Two rotations at once cannot undo each other, and a resend is no other rotation."""
    store = bench.store
    store.add_key(_OLD)
    second = _OLD._replace(master="second", wrapped=b"by the second")
    third = _OLD._replace(master="third", wrapped=b"by the third")
    assert store.rewrap_key(_OLD, second)
    assert store.rewrap_key(_OLD, second)
    assert not store.rewrap_key(_OLD, third)
    assert store.read_keys() == [second]
    assert not store.rewrap_key(StoredKey(b"\x07" * 8, "first", b"", 0), third)
