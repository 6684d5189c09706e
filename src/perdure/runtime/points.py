"""The named points at which a process may die: what ``reached`` is told. Crash tests kill the process at each.

Between the two names of a pair the change is on disk or it is not; nothing in between is ever seen.
"""

from __future__ import annotations

from typing import Final

from perdure.store import pruning

CREATE: Final = "create"
"""A run is about to be created (or found); where it is executed at once, it is claimed in the same transaction."""
CREATED: Final = "created"
CLAIM: Final = "claim"
"""The worker is about to claim what is due."""
CLAIMED: Final = "claimed"
COMMIT: Final = "commit"
"""A batch of events is about to be written."""
COMMITTED: Final = "committed"
BODY: Final = "body"
"""A step's body is about to begin; all that the run has submitted is on disk."""
BODY_ENDED: Final = "body_ended"
"""A body has ended; its outcome is known to nobody yet."""
TRANSACT: Final = "transact"
"""A transactional step is about to commit in the user's database: its effects, and its outcome."""
TRANSACTED: Final = "transacted"
RECLAIM: Final = "reclaim"
"""The runs of dead workers are about to be taken back."""
RECLAIMED: Final = "reclaimed"
FORK: Final = "fork"
"""A run is about to be forked (or the fork to be found)."""
FORKED: Final = "forked"
FIRE: Final = "fire"
"""Schedules are due: their runs are about to be created, in the transaction that goes on to what comes next."""
FIRED: Final = "fired"
PURGE, PURGED, COLLECT, COLLECTED = pruning.PURGE, pruning.PURGED, pruning.COLLECT, pruning.COLLECTED
"""Runs are about to become tombstones; what purged runs have left behind is about to be deleted, a part of it."""

RELAY: Final = "relay"
"""What a transaction of the user's has left in an outbox is about to be created, and sent."""
RELAYED: Final = "relayed"
"""It is in the store; the outbox still has it."""

POINTS: Final = (
    CREATE, CREATED, CLAIM, CLAIMED, COMMIT, COMMITTED, BODY, TRANSACT, TRANSACTED, BODY_ENDED, RECLAIM, RECLAIMED,
    FORK, FORKED, FIRE, FIRED, RELAY, RELAYED,
    PURGE, PURGED, COLLECT, COLLECTED,
)  # fmt: skip
"""All of them, in the order of a run's life."""
