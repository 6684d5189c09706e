"""Codecs, purely: whatever goes in comes out again, in events of every kind, and what cannot be read is said so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import CodecMissing, IntegrityError
from perdure.model import chain, payloads
from perdure.model.coding import MOST_LAYERS, NONE, Codecs, codec_name, has_coded, is_coded
from perdure.model.failures import decode_failure, encode_failure, failure_text
from perdure.model.records import Event, Kind, Opened

SECRET = b"s3cret"


@dataclass
class Turned:
    """Turns bytes by a number, and is never the same twice."""

    name: str
    by: int = 1

    def __post_init__(self):
        self._count = count()

    def encode(self, data):
        mark = next(self._count).to_bytes(4, "big")
        return mark + bytes((byte + self.by) % 256 for byte in data)

    def decode(self, data):
        return bytes((byte - self.by) % 256 for byte in data[4:])


class Above:
    """Takes nothing short."""

    name = "above"

    def __init__(self, size):
        self.size = size

    def encode(self, data):
        return data[::-1] if len(data) > self.size else None

    def decode(self, data):
        return data[::-1]


TWO = Codecs([Above(5), Turned("turned", 7)])


def event(kind, codec=0, payload=None, args=None, seq=1):
    return chain.seal(b"\0" * 16, 1, seq, 5, 1, kind, "a#1", 1, 2, codec, payload, args)


@given(st.binary(), st.lists(st.sampled_from([Above(0), Above(9), Turned("one", 3), Turned("two", 250)]), max_size=4))
def test_whatever_goes_in_comes_out(data, codecs):
    codecs = Codecs(codecs)
    if not data.startswith(b"\0"):  # as no JSON does
        stored = codecs.encode(data)
        assert codecs.decode(stored) == data
        assert is_coded(stored) == (stored != data)


@given(st.binary(min_size=1).filter(lambda data: data[:1] != b"\0"), st.sampled_from(list(Kind)), st.booleans())
def test_events_of_every_kind_come_out_as_they_went_in(data, kind, large):
    value = json.dumps({"failure": json.loads(encode_failure(ValueError(data.hex()))), "n": 1}).encode()
    if large:
        value += b" " * payloads.INLINE
    codec, payload, artifact = payloads.pack(value)
    stored = TWO.event(kind, codec, payload, data, artifact)
    sealed = event(kind, *stored[:3])
    opened = TWO.open(sealed)
    assert (opened.args, opened.hash) == (data, sealed.hash)
    kept = {} if stored[3] is None else {stored[3].hash: stored[3].data}
    assert TWO.unpack(opened, kept.get) == value
    assert TWO.open(opened) is opened or TWO.open(opened) == opened
    chain.check(b"", [], run_id="r")


def test_the_chain_is_over_what_is_stored():
    uid = b"u" * 16
    links = [chain.genesis(uid)]
    log = []
    for seq in (1, 2, 3):
        codec, payload, args, _ = TWO.event(Kind.STEP_COMPLETED, 0, b'"s3cret"', b'{"a":1}', None)
        log.append(chain.seal(links[-1], 1, seq, 5, 1, Kind.STEP_COMPLETED, "a#1", 1, 2, codec, payload, args))
        links.append(log[-1].hash)
    chain.check(uid, log)
    opened = TWO.opened(list(log))
    assert all(type(one) is Opened and one.payload == b'"s3cret"' for one in opened)
    chain.check(uid, opened)
    opened[1].stored = log[0]
    with pytest.raises(IntegrityError):
        chain.check(uid, opened)


def test_values_over_the_limit_are_artifacts_of_what_is_stored():
    value = b'"' + b"s3cret" * 20_000 + b'"'
    codec, payload, artifact = TWO.value(*payloads.pack(value))
    assert codec == payloads.CODED | payloads.REFERENCE
    assert SECRET not in artifact.data
    assert TWO.load(codec, payload, {artifact.hash: artifact.data}.get) == value
    assert TWO.value(codec, payload, None) == (codec, payload, None)
    with pytest.raises(IntegrityError):
        TWO.load(codec, payload, {artifact.hash: artifact.data[:-1]}.get)
    with pytest.raises(IntegrityError):
        TWO.load(codec, payload, {}.get)


def test_progress_stays_in_the_event_however_large_it_gets():
    value = b'"' + b"x" * (payloads.INLINE - 2) + b'"'
    codec, payload, _, artifact = TWO.event(Kind.PROGRESS, 0, value, None, None)
    assert (codec, artifact) == (payloads.CODED, None)
    assert TWO.open(event(Kind.PROGRESS, codec, payload)).payload == value


def test_a_failure_keeps_its_type_and_nothing_else():
    failure = encode_failure(PermissionError("no card s3cret"))
    stored = TWO.failure(failure)
    assert SECRET not in stored
    assert failure_text(stored) == "PermissionError"
    assert str(decode_failure(stored)) == "PermissionError"
    said = payloads.failed(stored, next_at=7)
    assert said.startswith(b'{"next_at":7,')
    opened = TWO.open(event(Kind.STEP_FAILED, 0, said))
    assert opened.payload.startswith(b'{"next_at":7,')
    assert str(decode_failure(payloads.failure_of(opened.payload))) == "no card s3cret"
    assert TWO.open_failure(stored) == failure
    assert TWO.open_failure(failure) == failure


def test_what_drift_has_found_is_not_readable():
    said = payloads.note(code="drift", recorded=TWO.said("s3cret"), found=TWO.said("s3cret too"), build="b")
    assert SECRET not in said
    assert payloads.fields(TWO.open(event(Kind.DRIFT_FOUND, 0, said)).payload) == {
        "code": "drift",
        "recorded": "s3cret",
        "found": "s3cret too",
        "build": "b",
    }


def test_a_value_that_looks_coded_is_left_alone():
    tricky = json.dumps({"failure": {"coded": "not base64!"}, "recorded": {"coded": 7}, "text": '"coded":'}).encode()
    for kind in Kind:
        if kind not in {Kind.STEP_FAILED, Kind.RUN_FAILED, Kind.RUN_CANCELLED, Kind.RUN_BLOCKED, Kind.CHILD_ENDED,
                        Kind.DRIFT_FOUND}:  # fmt: skip
            assert not has_coded(event(kind, 0, tricky))
    child = event(Kind.CHILD_ENDED, 0, json.dumps({"text": {"coded": 1}, "coded": "x"}).encode())
    assert TWO.open(child).payload == child.payload


def test_where_nothing_is_coded_nothing_is_changed():
    assert not NONE
    log = [event(Kind.STEP_COMPLETED, 0, b'"s3cret"', b"{}")]
    assert NONE.opened(log)[0] is log[0]
    assert type(log[0]) is Event
    NONE.check(log)


@pytest.mark.parametrize("missing", [(), ("turned",), ("above",)])
def test_what_cannot_be_read_is_left_and_said(missing):
    codecs = Codecs([codec for codec in (Above(5), Turned("turned", 7)) if missing and codec.name not in missing])
    codec, payload, args, _ = TWO.event(Kind.STEP_COMPLETED, 0, b'"a long s3cret"', b'{"a long":"s3cret"}', None)
    stored = event(Kind.STEP_COMPLETED, codec, payload, args, seq=12)
    assert codecs.open(stored) is stored
    with pytest.raises(CodecMissing, match="the payload of event 12 was stored by the codec") as raised:
        codecs.check([stored])
    assert raised.value.seq == 12
    assert raised.value.codec in {"turned", "above"}
    assert "s3cret" not in str(raised.value)
    assert codec_name(payload) == "turned"


class Broken(Turned):
    def decode(self, data):
        raise KeyError(data)


def test_a_codec_that_fails_is_an_error_of_that_payload_without_its_text():
    codecs = Codecs([Broken("turned", 7)])
    with pytest.raises(CodecMissing, match=r"cannot be read by its codec .turned.: KeyError"):
        codecs.decode(b"\0turned\0s3cret", seq=3)


@pytest.mark.parametrize("data", [b"\0", b"\0\0x", b"\0name", b"\0" + b"n" * 40 + b"\0x", b"\0\xff\0x"])
def test_damaged_layers_are_said(data):
    with pytest.raises(CodecMissing):
        TWO.decode(data)


def test_layers_without_end_are_refused():
    class Endless:
        name = "endless"

        def encode(self, data):
            return data

        def decode(self, data):
            return b"\0endless\0" + data

    with pytest.raises(CodecMissing, match=f"more than {MOST_LAYERS} times"):
        Codecs([Endless()]).decode(b"\0endless\0x")


def test_others_are_looked_for_by_name_and_write_nothing():
    reading = TWO.reading()
    assert not reading
    assert reading.encode(b"a long s3cret") == b"a long s3cret"
    assert reading.decode(TWO.encode(b"a long s3cret")) == b"a long s3cret"
