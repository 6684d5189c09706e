from __future__ import annotations

import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import DefinitionError
from perdure.model.ids import idempotency_key, new_uid, run_id, valid_name, valid_run_id, worker_key
from tests.model.values import Word


@given(st.integers(0, 2**47), st.integers(1, 2**40), st.randoms(use_true_random=False))
def test_run_ids_are_uuids_that_sort_by_time(now, gap, source):
    first, second = run_id(now, source.randbytes), run_id(now + gap, source.randbytes)
    assert first < second
    for text in (first, second):
        assert uuid.UUID(text).version == 7
        assert uuid.UUID(text).variant == uuid.RFC_4122
        assert valid_run_id(text) == text
    assert uuid.UUID(first).int >> 80 == now // 1000


@pytest.mark.parametrize("now", [-1, 2**80])
def test_run_ids_can_be_made_at_any_time(now):
    assert uuid.UUID(run_id(now, random.Random(1).randbytes)).version == 7  # noqa: S311


def test_worker_keys_fit_a_file_offset_and_are_never_nought():
    assert worker_key(bytes) == 1
    assert worker_key(lambda size: b"\xff" * size) == 2**62 - 1
    assert len(new_uid(bytes)) == 16


def test_idempotency_keys_are_part_of_the_format():
    assert idempotency_key(bytes(16), "fulfil/charge#1") == "wi2y4n7kd4nqlwxwozajodcwo75y2357"
    assert idempotency_key(bytes(16), "\ud800")


@given(st.lists(st.tuples(st.binary(min_size=16, max_size=16), st.text()), min_size=2, max_size=8, unique=True))
def test_every_step_of_every_run_has_a_key_of_its_own(pairs):
    keys = {idempotency_key(uid, key) for uid, key in pairs}
    assert len(keys) == len(pairs)
    assert all(len(key) <= 40 and key.isalnum() for key in keys)


@pytest.mark.parametrize("name", ["a", "charge", "x" * 200, "über", "a b", "mod.fn.<locals>.g", "🎉", "a-b:c"])
def test_a_name_is_any_visible_text_without_reserved_characters(name):
    assert valid_name(name) == name


@pytest.mark.parametrize(
    "name", ["", " ", "x" * 201, "a\x00", "\ud800", "a\nb", "\x7f", "\x85", *(f"a{c}b" for c in "@/#[]"), None, 1, b"a"]
)
def test_a_name_that_could_not_stand_in_a_key_is_refused_with_advice(name):
    with pytest.raises(DefinitionError, match="step name") as caught:
        valid_name(name, "step name")
    assert caught.value.advice


@pytest.mark.parametrize("value", ["order-42", "a/b@c#[1]", "x" * 500, "é" * 250, "שלום"])
def test_a_run_id_may_have_nearly_any_character(value):
    assert valid_run_id(value) == value


@pytest.mark.parametrize("value", ["", "x" * 501, "é" * 251, "a\x00b", "\ud800", "a\r", None, 5])
def test_a_run_id_that_no_store_bears_is_refused_with_advice(value):
    with pytest.raises(DefinitionError, match="run id") as caught:
        valid_run_id(value)
    assert caught.value.advice


@given(st.text())
def test_a_valid_text_is_storable_everywhere(text):
    for valid in (valid_name, valid_run_id):
        try:
            kept = valid(text)
        except DefinitionError:
            continue
        assert "\x00" not in kept
        assert kept.encode().decode() == text


def test_a_member_of_a_str_enum_becomes_plain_text():
    assert type(valid_name(Word.YES)) is str
    assert type(valid_run_id(Word.YES)) is str
