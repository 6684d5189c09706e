"""Forks: runs that begin with a copy of another run's log, up to where they part, and go on from there by themselves.

    run_created   as in the origin, at the same instant; its args begin with "forked": where the copy comes from
    …             the origin's events, with the same seq, instants and epochs
    run_forked    the end of the copy; what had no outcome by then is done anew, and the time since then does not count

What code derives from its run's uid (random numbers, the order of sets) goes on as in the origin, or the copy would not
replay. Idempotency keys are those of the fork's own uid, unless it keeps the origin's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from perdure.model import payloads
from perdure.model.keys import step_name
from perdure.model.records import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.model.records import Event

_MARK = b'{"forked":'
_OWN = frozenset({"run_id", "delay_until", "forked", "by"})
"""What a fork does not have from its origin, of the arguments of ``run_created``."""


ORIGIN_TAG = "=origin"
"""Tag of a fork, with the key of the run it was forked from, by which a run's forks are found. Shown to nobody; no tag
of a user's has such a name."""


class Lineage(NamedTuple):
    """Where a run was forked from.

    Attributes:
        run_id: id of its origin.
        uid: the origin's uid.
        seq: of the last event that was copied.
        step: key of the step that it was forked from: the first that is done anew.
        seed: the uid that the run's random numbers and the order of its sets hang on.
        keys: the uid that its idempotency keys hang on; None: its own.
    """

    run_id: str
    uid: bytes
    seq: int
    step: str
    seed: bytes
    keys: bytes | None = None


class Fork(NamedTuple):
    """A run to fork: the log of the run ``origin_key`` up to ``seq`` becomes the beginning of another run's.

    ``origin``: the arguments of its ``run_created``; ``created_at``: µs.
    """

    origin_key: int
    seq: int
    run_id: str
    uid: bytes
    created_at: int
    origin: bytes


def lineage(created: Event) -> Lineage | None:
    """Return where a run was forked from, by its first event; None if it was not."""
    args = created.args
    if args is None or not args.startswith(_MARK):
        return None
    said = json.loads(args)["forked"]
    keys = said.get("keys")
    return Lineage(
        said["run_id"],
        bytes.fromhex(said["uid"]),
        said["seq"],
        said["step"],
        bytes.fromhex(said["seed"]),
        None if keys is None else bytes.fromhex(keys),
    )


def uids(uid: bytes, created: Event) -> tuple[bytes, bytes]:
    """Return the uids that a run's random numbers, and its idempotency keys, hang on."""
    try:
        forked = lineage(created)
    except (ValueError, KeyError, TypeError):
        forked = None  # damaged: found when the log is checked, before anything runs
    return (uid, uid) if forked is None else (forked.seed, forked.keys or uid)


def origin(run_id: str, created: Event, forked: Lineage, by: str | None = None) -> bytes:
    """Return the arguments of ``run_created`` of a fork named ``run_id``, whose origin began with ``created``.

    ``by``: who forks it by hand.
    """
    said = {name: value for name, value in payloads.fields(created.args).items() if name not in _OWN}
    told = {
        "run_id": forked.run_id,
        "uid": forked.uid.hex(),
        "seq": forked.seq,
        "step": forked.step,
        "seed": forked.seed.hex(),
    }
    if forked.keys is not None:
        told["keys"] = forked.keys.hex()
    if by is not None:
        said = {"by": by, **said}
    return payloads.note(forked=told, run_id=run_id, **said)


class Steps:
    """The steps that a log speaks of, in their order: fed page by page."""

    def __init__(self) -> None:
        self.first: dict[str, int] = {}
        """By key: the seq of the first event that is about it."""
        self.undone_at: int | None = None
        """The seq with which a run that was cancelled began to undo what it had done."""
        self._is_cancelled = False

    def feed(self, events: Iterable[Event]) -> None:
        """Take in the next events of the log."""
        for event in events:
            key = event.key
            if event.kind == Kind.CANCEL_DELIVERED:
                self._is_cancelled = True
            elif event.kind == Kind.RUN_RESUMED:
                self._is_cancelled = self._is_cancelled and payloads.fields(event.payload).get("undo") is True
            elif event.kind == Kind.UNDO_BEGUN and self._is_cancelled:
                self.undone_at = self.undone_at or event.seq
            if key is not None and key not in self.first and not step_name(key).startswith("@"):
                self.first[key] = event.seq

    def find(self, step: str) -> str | None:
        """Return the key of a step that is given by its key, or by its name: then that of its first call."""
        if step in self.first:
            return step
        return next((key for key in self.first if step_name(key) == step), None)


__all__ = ["ORIGIN_TAG", "Fork", "Lineage", "Steps", "lineage", "origin", "uids"]
