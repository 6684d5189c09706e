"""A run's history as one JSON document: what ``perdure export`` writes, and what a replay without a store reads.

    {"perdure_history": 1,            version of this document
     "format": 1,                     version of what is in it (``records.FORMAT``)
     "run_id", "uid" (hexadecimal), "workflow", "version", "namespace", "queue", "status",
     "code": {"module", "qualname", "file"},
     "events": [{"seq", "at" (µs), "epoch", "kind" (its word), "key", "attempt", "took" (µs), "codec",
                 "payload", "args" (base64), "hash" (hexadecimal)}, …],
     "artifacts": {hash (hexadecimal): base64}}

The hash chain goes through it, so a changed document is found as a changed store is. Other keys are ignored.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.errors import IntegrityError, StoreTooNew
from perdure.model import chain, coding, payloads
from perdure.model.history import fold
from perdure.model.records import FORMAT, Event, Kind, RunRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.model.coding import Codecs

DOCUMENT = 1


class History(NamedTuple):
    """A run, its whole log, and its artifacts by hash."""

    row: RunRow
    events: list[Event]
    artifacts: dict[bytes, bytes]

    def get_artifact(self, digest: bytes) -> bytes | None:
        """Return an artifact's bytes."""
        return self.artifacts.get(digest)


def dump(row: RunRow, events: Sequence[Event], load: Callable[[bytes], bytes | None]) -> dict[str, Any]:
    """Return a history as plain data.

    Args:
        row: the run.
        events: its whole log.
        load: gives an artifact's bytes by its hash.
    """
    code = payloads.fields(events[0].args)
    artifacts = {}
    for digest in sorted(referenced(events)):
        data = load(digest)
        if data is not None:
            artifacts[digest.hex()] = _text(data)
    return {
        "perdure_history": DOCUMENT,
        "format": FORMAT,
        "run_id": row.run_id,
        "uid": row.uid.hex(),
        "workflow": row.workflow,
        "version": row.version,
        "namespace": row.namespace,
        "queue": row.queue,
        "status": fold(events).status.word,
        "code": {name: code.get(name) for name in ("module", "qualname", "file")},
        "events": [_event(event) for event in events],
        "artifacts": artifacts,
    }


def uncoded(
    row: RunRow, events: Sequence[Event], load: Callable[[bytes], bytes | None], codecs: Codecs
) -> tuple[list[Event], dict[bytes, bytes]]:
    """Return a history as if it had never gone through codecs: its events, sealed anew, and their artifacts by hash.

    Raises:
        CodecMissing: something in it cannot be read here.
    """
    previous = chain.genesis(row.uid)
    made: list[Event] = []
    artifacts: dict[bytes, bytes] = {}
    for one in events:
        event = codecs.surely_open(one) if coding.has_coded(one) else one
        codec, payload = event.codec, event.payload
        if codec & payloads.REFERENCE:
            codec, payload, artifact = payloads.pack(codecs.unpack(event, load))
            if artifact is not None:
                artifacts[artifact.hash] = artifact.data
        elif event.kind == Kind.ARTIFACT_KEPT:
            said = payloads.fields(payload)
            data = load(bytes.fromhex(said["hash"])) or b""
            if said.pop("coded", False):
                data = codecs.decode(data, seq=event.seq)
                digest = sha256(data).digest()
                payload = payloads.note(**{**said, "hash": digest.hex()})
            artifacts[bytes.fromhex(payloads.fields(payload)["hash"])] = data
        sealed = chain.seal(previous, *event[:8], codec, payload, event.args)
        made.append(sealed)
        previous = sealed.hash
    return made, artifacts


def read(data: object) -> History:
    """Return the history in a document.

    Raises:
        IntegrityError: it is none, or was changed.
        StoreTooNew: a newer Perdure has written it.
    """
    if not isinstance(data, dict) or "perdure_history" not in data:
        raise IntegrityError("this is no history as `perdure export` writes it")
    if data["perdure_history"] > DOCUMENT or data.get("format", 0) > FORMAT:
        raise StoreTooNew("a newer Perdure has written this history", advice="upgrade Perdure")
    try:
        events = [_read_event(entry) for entry in data["events"]]
        artifacts = {
            bytes.fromhex(digest): b64decode(text, validate=True) for digest, text in data["artifacts"].items()
        }
        row = _row(data, events)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise IntegrityError(f"the history is damaged: {type(error).__name__}: {error}") from error
    return History(row, events, artifacts)


def referenced(events: Sequence[Event]) -> set[bytes]:
    """Return the hashes of all artifacts that a log speaks of."""
    found = set()
    for event in events:
        if event.codec & payloads.REFERENCE and event.payload is not None:
            found.add(event.payload)
        if event.kind == Kind.ARTIFACT_KEPT:
            found.add(bytes.fromhex(payloads.fields(event.payload)["hash"]))
    return found


def _event(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": event.at,
        "epoch": event.epoch,
        "kind": event.word,
        "key": event.key,
        "attempt": event.attempt,
        "took": event.took,
        "codec": event.codec,
        "payload": None if event.payload is None else _text(event.payload),
        "args": None if event.args is None else _text(event.args),
        "hash": event.hash.hex(),
    }


def _read_event(entry: dict[str, Any]) -> Event:
    payload, args = entry["payload"], entry["args"]
    return Event(
        0,
        entry["seq"],
        entry["at"],
        entry["epoch"],
        Kind[entry["kind"].upper()],
        entry["key"],
        entry["attempt"],
        entry["took"],
        entry["codec"],
        None if payload is None else b64decode(payload, validate=True),
        None if args is None else b64decode(args, validate=True),
        bytes.fromhex(entry["hash"]),
    )


def _row(data: dict[str, Any], events: list[Event]) -> RunRow:
    view, last = fold(events), events[-1]
    return RunRow(
        run_key=0,
        namespace=data["namespace"],
        run_id=data["run_id"],
        uid=bytes.fromhex(data["uid"]),
        workflow=data["workflow"],
        version=data["version"],
        queue=data["queue"],
        status=view.status,
        epoch=last.epoch,
        worker_key=None,
        seq=last.seq,
        hash=last.hash,
        inbox=0,
        crashes=0,
        wake_at=view.wake_at,
        deadline_at=None,
        priority=0,
        partition=None,
        parent_key=None,
        idempotency_key=None,
        reason=view.reason,
        meta=None,
        format=FORMAT,
        created_at=view.created_at,
        ended_at=view.ended_at,
    )


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


__all__ = ["DOCUMENT", "History", "dump", "read", "referenced", "uncoded"]
