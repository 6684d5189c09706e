"""Payloads of the events that Perdure itself writes: small JSON objects, documented where they are made.

run_created     payload: the input          args: {"run_id", "delay_until"?, "workflow", "version", "module",
"qualname", "file"}: where the code was
run_claimed     {"worker", "python", "build"}
step_completed  payload: the result         args: the arguments (condensed)
step_failed     {"failure": …}, or with {"next_at": µs, …} first if another attempt follows; args as above
cancel_delivered {"reason", "spins": extra activations since the last outcome}
timer_fired     nothing: the key says which
run_suspended   {"status", "wake_at"}
run_resumed     {"supersede": [keys], "accept_drift": bool}
run_completed   payload: the output
run_failed      {"steps": [keys of the failures that came out], "attempts": [the last of each], "failure": …}
run_cancelled   {"reason", "failure": … if cleaning up failed}
run_blocked     {"code", "reason"}
drift_found     {"code", "key", "recorded", "found", "build", "reason"}
progress        the value
artifact_kept   {"name", "size", "hash"}
"""

from __future__ import annotations

import json
from hashlib import sha256
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any

from perdure.errors import IntegrityError
from perdure.model.records import Artifact

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.model.records import Event

INLINE = 64 * 1024
"""Payloads up to this many bytes stand in the event; larger ones are artifacts and the event holds a reference."""

PLAIN = 0
REFERENCE = 1


def note(**fields: object) -> bytes:
    """Encode an object of ours."""
    return json.dumps(fields, separators=(",", ":")).encode()


def origin(run_id: str, code: bytes, delay_until: int | None) -> bytes:
    """Arguments of ``run_created``: the run's id, ``code`` (a note: where its code was), and when it may begin (µs)."""
    head = b'{"run_id":' + encode_basestring_ascii(run_id).encode()
    if delay_until is not None:
        head += b',"delay_until":%d' % delay_until
    return head + b"," + code[1:]


def fields(payload: bytes | None) -> dict[str, Any]:
    """Decode an object of ours; empty if there is none."""
    if not payload:
        return {}
    decoded: dict[str, Any] = json.loads(payload)
    return decoded


def failed(failure: bytes, *, next_at: int | None = None) -> bytes:
    """Payload of ``step_failed``: an encoded failure, and when the next attempt is due."""
    if next_at is None:
        return b'{"failure":' + failure + b"}"
    return b'{"next_at":%d,"failure":' % next_at + failure + b"}"


def run_failed(failure: bytes, attempts: dict[str, int]) -> bytes:
    """Payload of ``run_failed``: an encoded failure, and by step key the last attempt of each failure that came out."""
    head = note(steps=list(attempts), attempts=list(attempts.values()))
    return head[:-1] + b',"failure":' + failure + b"}"


def failure_of(payload: bytes | None) -> bytes | None:
    """Return the encoded failure in a payload of ours; None if it holds none."""
    failure = fields(payload).get("failure")
    return None if failure is None else json.dumps(failure).encode()


def pack(payload: bytes) -> tuple[int, bytes, Artifact | None]:
    """Decide where a payload is kept: (codec, what the event holds, the artifact if it is one)."""
    if len(payload) <= INLINE:
        return PLAIN, payload, None
    artifact = Artifact(sha256(payload).digest(), len(payload), payload)
    return REFERENCE, artifact.hash, artifact


def unpack(event: Event, load: Callable[[bytes], bytes | None]) -> bytes:
    """Return an event's payload, wherever it is kept.

    Raises:
        IntegrityError: the artifact is gone or not what was written.
    """
    payload = event.payload or b""
    if event.codec != REFERENCE:
        return payload
    data = load(payload)
    if data is None or sha256(data).digest() != payload:
        raise IntegrityError(
            f"the payload of event {event.seq} is {'missing' if data is None else 'not what was written'}",
            seq=event.seq,
            advice="the database was changed or damaged outside Perdure; restore it from a backup",
        )
    return data
