"""Payloads of the events that Perdure itself writes: small JSON objects, documented where they are made.

run_created     payload: the input          args: {"run_id", "by"?, "scheduled_at"?, "delay_until"?, "workflow",
"version", "module", "qualname", "file"}: where the code was; of a fork "forked" goes before: see
``perdure.model.forking``
run_forked      nothing: here what was copied of another run's log ends, and the fork's own begins
run_claimed     {"worker", "python", "build"}
step_completed  payload: the result         args: the arguments (condensed)
step_failed     {"failure": …}, or with {"next_at": µs, …} first if another attempt follows; args as above
cancel_delivered {"reason", "spins": extra activations since the last outcome}
timer_fired     nothing: the key says which
patch_marked    nothing: the key says which
run_suspended   {"status", "wake_at"}; of a run that waits also {"awaits": [signals], "children": [run ids]}, and of one
                that puts a step off {"reason"}
run_paused      {"reason"}
signal_received payload: the message        args: {"name", "sent_at"}; "by" if it was sent by hand
signal_refused  payload: a message that does not decode as the signal's type   args: {"name", "reason"}
undo_begun      {"undo": [keys of the compensations to be executed, in that order], "from": the first step after them}
message_sent    {"kind", "to": run id, "name"}
child_started   {"run_id", "workflow", "version", "abandon"}   args: the child's input (condensed)
child_ended     payload: that of its last event   args: {"status", "run_id"}
run_resumed     {"supersede": [keys], "accept_drift": bool}, and "keep": true if a cancel that was delivered stands
run_completed   payload: the output
run_failed      {"steps": [keys of the failures that came out], "attempts": [the last of each], "failure": …}
run_continued   {"renamed": the id that the run has from then on; the new one has its id}
run_cancelled   {"reason", "failure": … if cleaning up failed}; if it was forced also {"forced", "not_undone": [keys]}
run_blocked     {"code", "reason"}; for a compensation that failed also {"steps", "attempts", "failure", "not_undone"}
drift_found     {"code", "key", "recorded", "found", "build", "reason"}
progress        the value
emitted         the value                   args: {"stream"}; without an attempt it is of the workflow's own code
artifact_kept   {"name", "size", "hash"}
"""

from __future__ import annotations

import json
from functools import lru_cache
from hashlib import sha256
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any

from perdure.errors import IntegrityError
from perdure.model.records import Artifact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perdure.model.records import Event

INLINE = 64 * 1024
"""Payloads up to this many bytes stand in the event; larger ones are artifacts and the event holds a reference."""

PLAIN = 0
REFERENCE = 1
"""Bit of ``codec``: the payload is the hash of an artifact."""
CODED = 2
"""Bit of ``codec``: what is stored is what codecs have made of the payload; see ``perdure.model.coding``."""


def note(**fields: object) -> bytes:
    """Encode an object of ours."""
    return json.dumps(fields, separators=(",", ":")).encode()


def origin(
    run_id: str,
    code: bytes,
    delay_until: int | None,
    *,
    scheduled_at: int | None = None,
    generation: int = 1,
    depth: int = 0,
    by: str | None = None,
) -> bytes:
    """Arguments of ``run_created``.

    Args:
        run_id: the run's id.
        code: a note: where its code was.
        delay_until: when it may begin (µs).
        scheduled_at: the occurrence that it is (µs), if it is a schedule's.
        generation: which one it is of the runs that continue each other under this id.
        depth: how many runs are above it, each a child of the one before; 0 for one that is no child.
        by: who creates it by hand, as ``perdure.model.deeds`` has it.
    """
    head = b'{"run_id":' + encode_basestring_ascii(run_id).encode()
    if by is not None:
        head += b',"by":' + encode_basestring_ascii(by).encode()
    if generation > 1:
        head += b',"generation":%d' % generation
    if depth:
        head += b',"depth":%d' % depth
    if scheduled_at is not None:
        head += b',"scheduled_at":%d' % scheduled_at
    if delay_until is not None:
        head += b',"delay_until":%d' % delay_until
    return head + b"," + code[1:]


def generation(created: Event) -> int:
    """Return which one a run is of those that continue each other under its id, by its ``run_created``; from 1."""
    return _of_origin(created, "generation") or 1


def depth(created: Event) -> int:
    """Return how many runs are above a run, by its ``run_created``; 0 if it is no child."""
    return _of_origin(created, "depth") or 0


def scheduled_at(created: Event) -> int | None:
    """Return the occurrence (µs) that a ``run_created`` tells of; None if no schedule made the run."""
    return _of_origin(created, "scheduled_at")


def _of_origin(created: Event, name: str) -> int | None:
    """Return a number that few origins have, and read those only."""
    if created.args is None or b'"%s":' % name.encode() not in created.args:
        return None
    found: int | None = fields(created.args).get(name)
    return found


def check_origin(created: Event, code: bytes, run_id: str) -> None:
    """Check that a run is what its row took it for.

    Args:
        created: its first event.
        code: the note of where the code is that its row has led to.
        run_id: the run's id.

    Raises:
        IntegrityError: it was created as a run of another workflow, or of another version.
    """
    if created.args is None or created.args.endswith(code[1:]):
        return
    recorded, found = fields(created.args), fields(code)
    for name in ("workflow", "version"):
        if recorded.get(name, found[name]) != found[name]:
            raise IntegrityError(
                f"run {run_id!r} was created with {name} {recorded[name]!r}, but its row says {found[name]!r}",
                run_id=run_id,
                seq=created.seq,
                advice="the database was changed or damaged outside Perdure; restore it from a backup",
            )


def fields(payload: bytes | None) -> dict[str, Any]:
    """Decode an object of ours; empty if there is none."""
    if not payload:
        return {}
    decoded: dict[str, Any] = json.loads(payload)
    return decoded


def tags_of(meta: bytes | None) -> dict[str, str]:
    """Return the tags in what is kept with a run besides its log; none if that is no object of ours."""
    if meta is None or not meta.startswith(b"{"):
        return {}
    tags: dict[str, str] = fields(meta).get("tags", {})
    return tags


def meta(tags: Mapping[str, str] | None, trace: Mapping[str, str] | None = None) -> bytes | None:
    """What is kept with a run besides its log: its tags, and the trace that it goes on in; None if there is neither."""
    kept = {"tags": dict(tags)} if tags is not None else {}
    if trace:
        kept["trace"] = dict(trace)
    return note(**kept) if kept else None


def trace_of(kept: bytes | None) -> dict[str, str]:
    """Return the trace in what is kept with a run: a carrier of W3C's; empty if there is none."""
    if kept is None or b'"trace":{' not in kept:
        return {}
    found = fields(kept).get("trace")
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def traced(kept: bytes | None, trace: Mapping[str, str]) -> bytes | None:
    """Return what is kept with a run, with another trace."""
    return note(**{**fields(kept), "trace": dict(trace)}) if trace else kept


def delay_until(created: Event) -> int | None:
    """Return when a run may begin (µs), by its ``run_created``; None: at once."""
    return _of_origin(created, "delay_until")


@lru_cache(1000)
def stream_args(stream: str) -> bytes:
    """Arguments of ``emitted``: the stream's name."""
    return note(stream=stream)


def stream_of(event: Event) -> str:
    """Return the name of the stream that an ``emitted`` is of."""
    return str(fields(event.args).get("stream", ""))


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


def load_payload(
    codec: int, payload: bytes | None, load: Callable[[bytes], bytes | None], *, seq: int | None = None
) -> bytes:
    """Return a payload as it is stored, wherever it is kept; ``seq`` names the event it is of, if it is of one.

    Raises:
        IntegrityError: the artifact is gone or not what was written.
    """
    payload = payload or b""
    if not codec & REFERENCE:
        return payload
    data = load(payload)
    if data is None or sha256(data).digest() != payload:
        whose = "a message" if seq is None else f"event {seq}"
        raise IntegrityError(
            f"the payload of {whose} is {'missing' if data is None else 'not what was written'}",
            seq=seq,
            advice="the database was changed or damaged outside Perdure; restore it from a backup",
        )
    return data
