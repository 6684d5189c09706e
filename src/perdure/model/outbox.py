"""What a row of ``perdure_outbox`` means: a run to create, or a signal to send, once the transaction has committed.

The row is written in the user's transaction, and carries all that the store is given later: the run has its id and uid
from the beginning, and a signal its idempotency key, so that what is sent a second time is found to be there.
"""

from __future__ import annotations

import json
from enum import IntEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.errors import IntegrityError
from perdure.model import payloads
from perdure.model.coding import NONE
from perdure.model.records import InboxKind, Message, NewRun, Reuse

if TYPE_CHECKING:
    from perdure.model.coding import Codecs

_FORMAT = 1


class EntryKind(IntEnum):
    """What an entry asks for; the numbers are part of the format."""

    RUN = 1
    SIGNAL = 2


class Entry(NamedTuple):
    """A row of an outbox.

    Attributes:
        kind: of ``EntryKind``.
        run: the run's id.
        body: everything but the payload: a JSON object.
        payload: the run's input, or the signal's message; whole, however large it is; as codecs have made it.
        seal: a hash of all this and of the store it is for, by which a changed row is known.
    """

    kind: int
    run: str
    body: bytes
    payload: bytes
    seal: bytes


class Stuck(NamedTuple):
    """An entry of an outbox that cannot be sent, and was set aside.

    Attributes:
        id: its number.
        namespace: of the run.
        kind: "run" or "signal".
        run_id: the run that was to be created, or to hear the signal.
        at: when it was written, µs UTC.
        code: the error's code.
        reason: what was wrong.
    """

    id: int
    namespace: str
    kind: str
    run_id: str
    at: int
    code: str
    reason: str


def run_entry(run: NewRun, store_id: str, codecs: Codecs = NONE) -> Entry:
    """Return the entry of a run that is to be created; ``parent_key`` is none of its."""
    payload, codec = _coded(codecs, _whole(run.payload, run.artifacts))
    body = {
        "format": _FORMAT, "codec": codec, "uid": run.uid.hex(), "workflow": run.workflow, "version": run.version,
        "created_at": run.created_at, "origin": run.origin.decode(), "namespace": run.namespace, "queue": run.queue,
        "delay_until": run.delay_until, "priority": run.priority, "partition": run.partition,
        "idempotency_key": run.idempotency_key, "deadline_at": run.deadline_at,
        "meta": None if run.meta is None else run.meta.decode(), "reuse": run.reuse,
    }  # fmt: skip
    return _sealed(EntryKind.RUN, run.run_id, body, payload, store_id)


def signal_entry(message: Message, store_id: str, codecs: Codecs = NONE) -> Entry:
    """Return the entry of a signal to a run that is named by its id."""
    assert message.run_id is not None
    payload, codec = _coded(codecs, _whole(message.payload or b"", message.artifacts))
    body = {
        "format": _FORMAT,
        "codec": codec,
        "namespace": message.namespace,
        "name": message.name,
        "dedup": message.dedup,
    }
    return _sealed(EntryKind.SIGNAL, message.run_id, body, payload, store_id)


def read_entry(entry: Entry, store_id: str) -> NewRun | Message:
    """Return what is to be created, or sent.

    Raises:
        IntegrityError: the row was changed, or a later Perdure has written it.
    """
    if entry.seal != _seal(entry.kind, entry.run, entry.body, entry.payload, store_id):
        raise IntegrityError(
            "a row of perdure_outbox is not what was written",
            advice="the database was changed or damaged outside Perdure",
        )
    fields: dict[str, Any] = json.loads(entry.body)
    if fields.pop("format") != _FORMAT or entry.kind not in set(EntryKind):
        raise IntegrityError("a row of perdure_outbox was written by a later Perdure", advice="upgrade Perdure")
    place, stored, artifact = payloads.pack(entry.payload)
    codec = fields.pop("codec") | place
    artifacts = () if artifact is None else (artifact,)
    if entry.kind == EntryKind.SIGNAL:
        return Message(
            InboxKind.SIGNAL, run_id=entry.run, codec=codec, payload=stored, artifacts=artifacts, **fields
        )  # fmt: skip
    meta, reuse = fields.pop("meta"), fields.pop("reuse")
    return NewRun(
        run_id=entry.run,
        uid=bytes.fromhex(fields.pop("uid")),
        origin=fields.pop("origin").encode(),
        codec=codec,
        payload=stored,
        artifacts=artifacts,
        meta=None if meta is None else meta.encode(),
        reuse=None if reuse is None else Reuse(*reuse),
        **fields,
    )


def _coded(codecs: Codecs, whole: bytes) -> tuple[bytes, int]:
    coded = codecs.encode(whole)
    return coded, payloads.PLAIN if coded is whole else payloads.CODED


def _whole(payload: bytes, artifacts: tuple[Any, ...]) -> bytes:
    return artifacts[0].data if artifacts else payload


def _sealed(kind: int, run: str, fields: dict[str, Any], payload: bytes, store_id: str) -> Entry:
    body = payloads.note(**fields)
    return Entry(kind, run, body, payload, _seal(kind, run, body, payload, store_id))


def _seal(kind: int, run: str, body: bytes, payload: bytes, store_id: str) -> bytes:
    digest = sha256(b"perdure outbox %d " % kind)
    for part in (store_id.encode(), run.encode(), body, payload):
        digest.update(b"%d:" % len(part) + part)
    return digest.digest()


__all__ = ["Entry", "EntryKind", "Stuck", "read_entry", "run_entry", "signal_entry"]
