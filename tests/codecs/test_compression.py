"""Compression: what is worth it is smaller, all else stays as it is, and several threads do it at once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure.codecs import Zstandard, known
from perdure.errors import CodecMissing, DefinitionError
from perdure.model.coding import Codecs


def test_what_is_small_or_does_not_shrink_stays_as_it_is():
    codec = Zstandard(above=100)
    assert codec.encode(b"a" * 100) is None
    assert codec.encode(os.urandom(5000)) is None
    small = codec.encode(b"a" * 5000)
    assert len(small) < 100
    assert codec.decode(small) == b"a" * 5000


def test_threads_do_not_get_in_each_others_way():
    codecs = Codecs([Zstandard(above=10)])
    texts = [bytes([65 + number % 26]) * (1000 + number) for number in range(400)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: codecs.decode(codecs.encode(text)), texts)) == texts


def test_damage_is_found():
    stored = bytearray(Codecs([Zstandard(above=10)]).encode(bytes(range(256)) * 40))
    stored[-5] ^= 1
    with pytest.raises(CodecMissing, match="ZstdError"):
        Codecs([Zstandard()]).decode(bytes(stored))


def test_it_needs_no_setting_to_be_read():
    assert Codecs((), known).decode(Codecs([Zstandard(above=10)]).encode(b"a" * 999)) == b"a" * 999
    assert known("other") is None


@pytest.mark.parametrize("options", [{"above": -1}, {"above": 1.5}, {"level": 0}, {"level": 23}, {"level": True}])
def test_wrong_options_are_refused(options):
    with pytest.raises(DefinitionError):
        Zstandard(**options)
