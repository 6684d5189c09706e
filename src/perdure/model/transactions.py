"""What a row of ``perdure_steps`` means: the checkpoint of a transactional step in the user's own database.

An attempt begins by putting its row there, with its epoch, in the transaction in which the body then works; whoever
else wants the row waits until that transaction has ended. A row with an outcome says that the body's effects are
committed, and with what result. One without, a marker, says which holder of the run was there last: no holder of a
lower epoch may begin any more.
"""

from __future__ import annotations

from enum import Enum
from hashlib import sha256
from typing import NamedTuple


class Mark(NamedTuple):
    """Which step an attempt is of, and by whom.

    Attributes:
        id: names the row: 32 bytes, the same for every attempt; see ``row_id``.
        run_id: the run's id, for people who look at the table.
        key: the step's key in the run's log.
        epoch: of the run's holder; 0 where it is not to be compared.
        attempt: number of the attempt, from 1.
        at: when it began, µs.
    """

    id: bytes
    run_id: str
    key: str
    epoch: int
    attempt: int
    at: int


class Row(NamedTuple):
    """What is found under an id when it is claimed.

    Attributes:
        epoch: the highest that was ever there, one's own included.
        outcome: the encoded result; None of a marker.
        args: the arguments it was made from (condensed).
        codec: how ``outcome`` is encoded; 0: as the log has it.
        seal: see ``seal``.
    """

    epoch: int
    outcome: bytes | None = None
    args: bytes | None = None
    codec: int = 0
    seal: bytes | None = None


class Meaning(Enum):
    """What a row tells who has claimed it."""

    MINE = "mine"
    """Nothing is committed, and the row is held: the body may work."""
    DONE = "done"
    """The step's effects are committed: it is not to be begun again."""
    FENCED = "fenced"
    """A later holder of the run has been here: nothing may be begun."""


def judge(row: Row, epoch: int) -> Meaning:
    """Return what a claimed row means for the holder of an epoch.

    What is committed stands, whoever committed it.
    """
    if row.outcome is not None:
        return Meaning.DONE
    return Meaning.FENCED if row.epoch > epoch else Meaning.MINE


def row_id(namespace: str, uid: bytes, key: str) -> bytes:
    """Return the id of a step's row, unlike that of any other step, run, namespace and store.

    Args:
        namespace: the run's.
        uid: the run's, or that of the run whose idempotency keys it has.
        key: the step's.
    """
    digest = sha256(b"perdure transaction ")
    for part in (namespace.encode(), uid, key.encode()):
        digest.update(b"%d:" % len(part) + part)
    return digest.digest()


def seal(row_id: bytes, outcome: bytes, args: bytes, codec: int = 0) -> bytes:
    """Return the hash that is kept beside an outcome, by which a changed row is known."""
    digest = sha256(b"perdure outcome %d %d %d " % (codec, len(outcome), len(args)))
    for part in (row_id, outcome, args):
        digest.update(part)
    return digest.digest()


def is_whole(row: Row, row_id: bytes) -> bool:
    """Whether a row with an outcome is what was written."""
    return row.outcome is not None and row.seal == seal(row_id, row.outcome, row.args or b"", row.codec)
