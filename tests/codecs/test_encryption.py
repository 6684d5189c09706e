"""Encryption: only who has the key reads, nothing is the same twice, and a master key is replaced without rewriting."""

from __future__ import annotations

import os
from base64 import b64encode

import pytest

from perdure.codecs import Encryption, MasterKey, new_key
from perdure.errors import CodecMissing, DefinitionError
from perdure.model.coding import Codecs
from perdure.store.coded import CodedStore, coded
from perdure.store.open import open_store

SECRET = b'"s3cret"'


@pytest.fixture
def store(made_store):
    with open_store(made_store(), durability="process") as opened:
        yield opened


def bound(store, *keys):
    return Encryption(keys).bound(store)


def test_nothing_is_readable_and_nothing_is_the_same_twice(store):
    codec = bound(store, new_key())
    made = [codec.encode(SECRET) for _ in range(100)]
    assert len(set(made)) == 100
    assert not any(b"s3cret" in one for one in made)
    assert {codec.decode(one) for one in made} == {SECRET}
    assert len(store.read_keys()) == 1


def test_other_processes_read_it_with_the_same_key_only(store):
    key = new_key()
    made = bound(store, key).encode(SECRET)
    assert bound(store, key).decode(made) == SECRET
    assert bound(store, new_key(), key).decode(made) == SECRET
    with pytest.raises(CodecMissing, match="is wrapped by the master key"):
        bound(store, new_key()).decode(made)


def test_a_changed_byte_is_found_wherever_it_is(store):
    codec = bound(store, new_key())
    made = codec.encode(SECRET)
    for at in range(len(made)):
        changed = bytearray(made)
        changed[at] ^= 1
        with pytest.raises(CodecMissing):
            Codecs([codec]).decode(b"\0aes\0" + bytes(changed))


def test_a_key_may_be_given_as_bytes_base64_or_hexadecimal(store):
    raw = os.urandom(32)
    made = bound(store, raw).encode(SECRET)
    for same in (raw.hex(), b64encode(raw).decode(), b64encode(raw), f" {raw.hex()}\n"):
        assert bound(store, same).decode(made) == SECRET


@pytest.mark.parametrize("wrong", ["", "short", b"x" * 31, "é" * 32, "x" * 44, []])
def test_what_is_no_key_is_refused_and_not_shown(wrong):
    with pytest.raises(DefinitionError) as raised:
        Encryption(wrong)
    assert not wrong or str(wrong) not in str(raised.value)


def test_two_processes_that_begin_at_once_read_each_other(store):
    key = new_key()
    one, two = bound(store, key), bound(store, key)
    one.prepare()
    two._keyring = Blind(store)
    made = two.encode(SECRET)
    assert one.decode(made) == SECRET
    assert bound(store, key).decode(made) == SECRET


class Blind:
    """A keyring in which no key is seen."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def read_keys(self):
        return []


def test_a_master_key_is_replaced_and_what_was_written_stays_as_it_is(store):
    old, new = new_key(), new_key()
    before = bound(store, old).encode(SECRET)
    rotation = Encryption([new, old]).rotate(store)
    assert (rotation.rewrapped, rotation.already) == (1, 0)
    assert bound(store, new).decode(before) == SECRET
    with pytest.raises(CodecMissing):
        bound(store, old).decode(before)
    after = bound(store, new).encode(SECRET)
    assert before[:8] != after[:8], "it is encrypted by a key that the old master key never wrapped"
    again = Encryption([new]).rotate(store)
    assert (again.rewrapped, again.already) == (0, 2)


def test_a_process_that_has_not_heard_of_a_rotation_goes_on(store):
    old, new = new_key(), new_key()
    running = bound(store, old, new)
    before = running.encode(SECRET)
    Encryption([new, old]).rotate(store)
    meanwhile = running.encode(SECRET)
    fresh = bound(store, new)
    assert {fresh.decode(before), fresh.decode(meanwhile)} == {SECRET}
    assert running.decode(fresh.encode(SECRET)) == SECRET


def test_a_rotation_without_the_old_key_changes_nothing(store):
    old = new_key()
    bound(store, old).prepare()
    keys = store.read_keys()
    with pytest.raises(CodecMissing, match="which is not given"):
        Encryption(new_key()).rotate(store)
    assert store.read_keys() == keys


def test_a_rotation_that_was_interrupted_goes_on(store):
    old, new = new_key(), new_key()
    for _ in range(3):
        Encryption(old).rotate(store)
    assert len(store.read_keys()) == 3
    with pytest.raises(KeyboardInterrupt):
        Encryption([new, old]).rotate(Interrupted(store, 2))
    rotation = Encryption([new, old]).rotate(store)
    assert (rotation.rewrapped, rotation.already) == (2, 1)
    assert {one.master for one in store.read_keys()} == {rotation.master}


class Interrupted(Blind):
    """A keyring whose user presses Ctrl-C at a change."""

    def __init__(self, store, at):
        super().__init__(store)
        self._left = at

    def read_keys(self):
        return self._store.read_keys()

    def rewrap_key(self, old, new):
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt
        return self._store.rewrap_key(old, new)


class Service:
    """A key management service."""

    def __init__(self, name):
        self.name, self.away = name, False
        self._kept = {}

    def wrap(self, key, key_id):
        self._kept[key_id] = key
        return key_id

    def unwrap(self, wrapped, key_id):
        if self.away:
            raise TimeoutError
        assert wrapped == key_id
        return self._kept[key_id]


def test_a_service_may_have_the_master_key(store):
    service = Service("arn:key/1")
    assert isinstance(service, MasterKey)
    made = bound(store, service).encode(SECRET)
    assert bound(store, service).decode(made) == SECRET
    service.away = True
    with pytest.raises(CodecMissing, match=r"cannot be unwrapped by the master key arn:key/1: TimeoutError"):
        bound(store, service).decode(made)


def test_an_encrypted_store_is_not_opened_without_a_key(store):
    key = new_key()
    assert isinstance(coded(store, [Encryption(key)]), CodedStore)
    for codecs in ([], [Encryption(new_key())]):
        with pytest.raises(CodecMissing):
            coded(store, codecs)
    shown = coded(store, [], may_be_locked=True)
    with pytest.raises(CodecMissing, match="no key is given"):
        shown.codecs.encode(SECRET)  # nothing readable gets into it either
