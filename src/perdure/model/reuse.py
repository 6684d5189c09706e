"""How long an idempotency key stands for a run, where that is not for ever: pure functions. Instants and durations: µs.

A *debounced* run is put off by each further call with its key, and takes that call's input, until it has begun. Nobody
has executed it, and its log is its first event alone; so that event is written anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perdure.model import payloads

if TYPE_CHECKING:
    from perdure.model.records import NewRun, Reuse


class Found(NamedTuple):
    """What there is under an idempotency key.

    Attributes:
        run_key: the run's key.
        run_id: its id.
        uid: its uid.
        route: what executes it.
        created_at: when it was created.
        has_begun: whether it has ever been claimed, or otherwise has more in its log than that it was created.
        has_ended: whether it has ended.
        meta: its tags and what else is kept with it.
    """

    run_key: int
    run_id: str
    uid: bytes
    route: int
    created_at: int
    has_begun: bool
    has_ended: bool
    meta: bytes | None


def gives_way(reuse: Reuse, found: Found, now: int) -> bool:
    """Whether the key of a run is free for a new one."""
    return (
        (reuse.age is not None and found.created_at + reuse.age <= now)
        or (reuse.ended and found.has_ended)
        or (reuse.debounce is not None and (found.has_begun or found.has_ended))
    )


def put_off(new: NewRun, found: Found) -> NewRun:
    """Return what a run that has not begun becomes by a further call: the same run, later and with another input."""
    assert new.reuse is not None
    assert new.reuse.debounce is not None
    until = min(new.delay_until or new.created_at, found.created_at + new.reuse.debounce)
    said = payloads.fields(new.origin) | {"run_id": found.run_id, "delay_until": until}
    return new._replace(
        run_id=found.run_id, uid=found.uid, created_at=found.created_at, delay_until=until, origin=payloads.note(**said)
    )


__all__ = ["Found", "gives_way", "put_off"]
