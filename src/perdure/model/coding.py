"""Codecs: how stored payloads are compressed and encrypted, and how they become readable again.

Codecs are applied one after the other, each to what the one before has made of a payload. Every layer names itself, so
that what is stored says how it is read: a NUL, the codec's name, a NUL, and what the codec has made. No JSON begins
with a NUL. Part of the format:

- A value (an input, a result, a message, progress, what is emitted) is stored as such layers, and the event's ``codec``
  has the bit ``CODED``. If it is larger than 64 KiB as it is stored, it is an artifact, and has ``REFERENCE`` as well.
- Arguments of steps and children are stored as layers where they stood.
- Notes of ours stay readable, so that a log can be folded and checked without any key. What is in them of the user's
  is stored as base64 of layers, under the name ``coded``: a failure keeps its type, and what drift was found says
  neither what was recorded nor what was found.
- An artifact that a step has kept by name is stored as layers, and its note says so: ``"coded": true``.

The hash chain is over what is stored.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from perdure.errors import CodecMissing, IntegrityError
from perdure.model.payloads import CODED, REFERENCE, load_payload, note, pack
from perdure.model.records import Artifact, Event, Kind, Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MOST_LAYERS = 8
_NAME_LIMIT = 32

_VALUES = frozenset({Kind.STEP_COMPLETED, Kind.RUN_COMPLETED, Kind.EMITTED, Kind.PROGRESS})
"""Kinds whose payload is a value that comes from code which is executed here."""
_ARGUED = frozenset({Kind.STEP_STARTED, Kind.STEP_COMPLETED, Kind.STEP_FAILED, Kind.STEP_CANCELLED, Kind.CHILD_STARTED})
"""Kinds whose args are the arguments of a call."""
_NOTES = frozenset(
    {Kind.STEP_FAILED, Kind.RUN_FAILED, Kind.RUN_CANCELLED, Kind.RUN_BLOCKED, Kind.CHILD_ENDED, Kind.DRIFT_FOUND}
)
"""Kinds whose payload is a note of ours that may have something of the user's in it."""


class Codec(Protocol):
    """Changes payloads on their way into a store and back: compresses them, or encrypts them.

    One object is called by several threads at once.
    """

    name: str
    """Stored with each payload that it has changed: letters, digits, ``-``; never to be used for anything else."""

    def encode(self, data: bytes, /) -> bytes | None:
        """Return what is stored for ``data``; None if it is to be stored as it is."""
        ...

    def decode(self, data: bytes, /) -> bytes:
        """Return what ``encode`` was given. Whatever it raises is an error of that payload."""
        ...


def is_coded(data: bytes | None) -> bool:
    """Whether bytes of a payload or of arguments are what a codec has made."""
    return data is not None and data[:1] == b"\0"


def codec_name(data: bytes) -> str:
    """Return the name of the outermost codec of coded bytes."""
    return data[1 : data.find(b"\0", 1)].decode("ascii", "replace")


class Codecs:
    """The codecs of an open store: what is written goes through all of them, what is read through those it names.

    Args:
        codecs: applied in this order.
        known: finds codecs that are not among them, by name, for what was written by another process.
    """

    __slots__ = ("_by_name", "_codecs", "_known")

    def __init__(self, codecs: Sequence[Codec] = (), known: Callable[[str], Codec | None] | None = None) -> None:
        self._codecs = tuple(codecs)
        self._by_name = {codec.name: codec for codec in codecs}
        self._known = known

    def __bool__(self) -> bool:
        """Whether anything that is written goes through a codec."""
        return bool(self._codecs)

    def reading(self) -> Codecs:
        """Return codecs that read what these do, and write nothing."""
        return Codecs((), lambda name: self._by_name.get(name) or (self._known(name) if self._known else None))

    # -- on the way in

    def encode(self, data: bytes) -> bytes:
        """Return bytes as they are stored: coded, or as they are if no codec wants them."""
        for codec in self._codecs:
            made = codec.encode(data)
            if made is not None:
                data = b"\0" + codec.name.encode() + b"\0" + made
        return data

    def value(
        self, codec: int, payload: bytes, artifact: Artifact | None, *, inline: bool = False
    ) -> tuple[int, bytes, Artifact | None]:
        """Return a packed value as it is stored.

        Args:
            codec: as ``payloads.pack`` has made it of a value, and so are the next two. What is coded already, or
                refers to an artifact that is not given, is left.
            payload: what the event would hold.
            artifact: what it refers to.
            inline: keep it in the event whatever its size.
        """
        if codec & CODED or (codec == REFERENCE and artifact is None):
            return codec, payload, artifact
        data = payload if artifact is None else artifact.data
        coded = self.encode(data)
        if not is_coded(coded):
            return codec, payload, artifact
        if inline:
            return CODED, coded, None
        place, kept, artifact = pack(coded)
        return CODED | place, kept, artifact

    def event(
        self, kind: int, codec: int, payload: bytes | None, args: bytes | None, artifact: Artifact | None
    ) -> tuple[int, bytes | None, bytes | None, Artifact | None]:
        """Return what an event that is about to be written holds: codec, payload, args, artifact."""
        if args is not None and kind in _ARGUED:
            args = self.encode(args)
        if payload is not None and kind in _VALUES:
            codec, payload, artifact = self.value(codec, payload, artifact, inline=kind == Kind.PROGRESS)
        return codec, payload, args, artifact

    def failure(self, failure: bytes) -> bytes:
        """Return an encoded failure as it is stored: its type stays readable."""
        if not self._codecs or not is_coded(coded := self.encode(failure)):
            return failure
        return note(type=json.loads(failure).get("type", ""), text="", traceback="", coded=_text(coded))

    def said(self, text: str | None) -> object:
        """Return a text in a note of ours as it is stored."""
        if text is None or not self._codecs or not is_coded(coded := self.encode(text.encode("utf-8", "replace"))):
            return text
        return {"coded": _text(coded)}

    def artifact(self, artifact: Artifact) -> Artifact:
        """Return an artifact as it is stored; the same one if no codec wants it."""
        coded = self.encode(artifact.data)
        return artifact if coded is artifact.data else Artifact(sha256(coded).digest(), len(coded), coded)

    # -- on the way back

    def decode(self, data: bytes, *, seq: int | None = None) -> bytes:
        """Return bytes as they were before they were stored; what is not coded is returned as it is.

        Raises:
            CodecMissing: the codec, or its key, is not here, or the bytes are not what it has made.
        """
        for _ in range(MOST_LAYERS):
            if data[:1] != b"\0":
                return data
            end = data.find(b"\0", 1, _NAME_LIMIT + 2)
            name = data[1 : max(end, 1)].decode("ascii", "replace")
            codec = self._by_name.get(name) or (self._known(name) if self._known is not None and name else None)
            if end < 0 or codec is None:
                raise CodecMissing(
                    f"{_whose(seq)} was stored by the codec {name!r}, which is not here",
                    codec=name,
                    seq=seq,
                    advice="give it with codecs= (or PERDURE_CODECS, PERDURE_ENCRYPTION_KEYS), then resume the run",
                )
            try:
                data = codec.decode(data[end + 1 :])
            except (MemoryError, CodecMissing):
                raise
            except Exception as error:
                raise CodecMissing(
                    f"{_whose(seq)} cannot be read by its codec {name!r}: {type(error).__name__}",
                    codec=name,
                    seq=seq,
                    advice="the stored bytes are damaged, or the codec is not the one that has written them",
                ) from error
        raise CodecMissing(f"{_whose(seq)} is coded more than {MOST_LAYERS} times", codec="", seq=seq)

    def load(
        self, codec: int, payload: bytes | None, load: Callable[[bytes], bytes | None], *, seq: int | None = None
    ) -> bytes:
        """Return a value, wherever and however it is kept.

        Raises:
            IntegrityError: the artifact is gone or not what was written.
            CodecMissing: as for ``decode``.
        """
        data = load_payload(codec, payload, load, seq=seq)
        return self.decode(data, seq=seq) if codec & CODED else data

    def unpack(self, event: Event, load: Callable[[bytes], bytes | None]) -> bytes:
        """Return an event's value, wherever and however it is kept; raises as ``load`` does."""
        return self.load(event.codec, event.payload, load, seq=event.seq)

    def opened(self, events: list[Event]) -> list[Event]:
        """Undo in events what codecs have made of them; what cannot be undone here is left as it is.

        Values that are artifacts stay where they are, and so does the bit that says they are coded.
        """
        for at, event in enumerate(events):
            if has_coded(event):
                events[at] = self.open(event)
        return events

    def open(self, event: Event) -> Event:
        """Undo in one event what codecs have made of it, as far as that can be done here."""
        if not has_coded(event):
            return event
        try:
            return self.surely_open(event)
        except CodecMissing:
            return event

    def surely_open(self, event: Event) -> Event:
        """As ``open``.

        Raises:
            CodecMissing: a codec, or its key, is not here.
        """
        codec, payload, args, seq = event.codec, event.payload, event.args, event.seq
        if args is not None:
            args = self.decode(args, seq=seq) if event.kind in _ARGUED else args
        if payload is not None:
            if codec == CODED:
                codec, payload = 0, self.decode(payload, seq=seq)
            elif codec == 0 and event.kind in _NOTES and b'"coded":' in payload:
                payload = self._noted(payload, seq)
        opened: Opened = tuple.__new__(Opened, (*event[:8], codec, payload, args, event.hash))
        opened.stored = event
        return opened

    def _noted(self, payload: bytes, seq: int) -> bytes:
        said: dict[str, Any] = json.loads(payload)
        changed = dict(said)
        for name, value in said.items():
            if isinstance(value, dict) and isinstance(value.get("coded"), str):
                data = self.decode(_bytes(value["coded"], seq), seq=seq)
                changed[name] = json.loads(data) if name == "failure" else data.decode("utf-8", "replace")
        return payload if changed == said else note(**changed)

    def open_failure(self, failure: bytes) -> bytes:
        """Undo in a failure what ``failure`` has made of it.

        Raises:
            CodecMissing: as for ``decode``.
        """
        said = json.loads(failure) if b'"coded":' in failure else {}
        return self.decode(_bytes(said["coded"], None)) if isinstance(said.get("coded"), str) else failure

    def check(self, events: Iterable[Event]) -> None:
        """Check that all that events hold can be read here.

        Raises:
            CodecMissing: something cannot.
        """
        for event in events:
            if type(event) is Event and has_coded(event):
                self.surely_open(event)


NONE = Codecs()
"""No codecs: nothing is changed, and what is coded cannot be read."""


def has_coded(event: Event) -> bool:
    """Whether something that an event holds has gone through codecs, and is in the event itself."""
    if event.codec == CODED or (event.args is not None and event.args[:1] == b"\0"):
        return True
    return event.kind in _NOTES and event.payload is not None and b'"coded":' in event.payload


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _bytes(text: str, seq: int | None) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise IntegrityError(f"{_whose(seq)} is not what was written", seq=seq) from error


def _whose(seq: int | None) -> str:
    return "a payload" if seq is None else f"the payload of event {seq}"


__all__ = ["NONE", "Codec", "Codecs", "codec_name", "has_coded", "is_coded"]
