"""Creating runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.model.records import FORMAT, Claim, Created, Event, RunRow
from perdure.store import creating
from perdure.store.postgres.arrays import bigints, byteas, nullable_bigints, texts
from perdure.store.postgres.burial import buried
from perdure.store.postgres.histories import histories
from perdure.store.postgres.reusing import make_way
from perdure.store.postgres.tags import tag
from perdure.store.postgres.words import BEGIN, COMMIT, ask, tell
from perdure.store.purging import refused
from perdure.store.rows import run_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import Artifact, NewRun
    from perdure.store.postgres.session import Session
    from perdure.store.postgres.words import Words

IN_A_STATEMENT: Final = 32
"""Runs in one statement: it pairs each new row with what it was made of by going through all of them."""


class Creation:
    """A batch of runs on its way into the store; sent again it finds what it has created."""

    def __init__(
        self, runs: Sequence[NewRun], routes: Sequence[int], *, claim_for: int | None, facts: bytes, now: int
    ) -> None:
        self.runs = runs
        self._has_more = any(run.artifacts or run.meta or run.reuse for run in runs)
        self._claim_for, self._facts, self._now = claim_for, facts, now
        # Their keys are the database's to give, so the events get them later; no hash covers them.
        firsts = {run.uid: creating.created(run, 0) for run in runs}
        self._logs = {
            uid: (first, first if claim_for is None else creating.claimed(first, facts, now))
            for uid, first in firsts.items()
        }
        self._new = {run.uid: run for run in runs}
        self._routes = numbers = {run.uid: route for run, route in zip(runs, routes, strict=True)}
        new = list(self._new.values())
        self._chunks = [
            self._columns(new[at : at + IN_A_STATEMENT], numbers) for at in range(0, len(new), IN_A_STATEMENT)
        ]

    @property
    def is_simple(self) -> bool:
        """Whether one statement creates them all."""
        return len(self._chunks) == 1 and not self._has_more

    def words(self) -> Words[list[Created] | None] | None:
        """What to say to create runs that are all new, if there is no more to it; else None."""
        return None if self._has_more else self._say()

    def _say(self) -> Words[list[Created] | None]:
        """Create them; None if not all were, so that somebody has to find those that are there."""
        if len(self._chunks) == 1:
            found = yield ask("create_runs", *self._chunks[0])
        else:
            yield BEGIN
            for values in self._chunks:
                yield tell("create_runs", *values)
            found = yield COMMIT
        made = {uid: (key, worker) for uid, key, worker in found}
        if len(made) < len(self.runs):
            return None
        rows = [self._row(run, *made[run.uid]) for run in self.runs]
        return [Created(row, True, self._claim(row)) for row in rows]

    def create(self, session: Session) -> list[Created]:
        """Create the runs, or find those that are there."""
        kept = make_way(session, list(self._new.values()), self._routes, self._now)
        made = {
            uid: (key, worker) for values in self._chunks for uid, key, worker in session.fetch("create_runs", *values)
        }
        kept += (
            (made[run.uid][0], artifact) for run in self._new.values() if run.uid in made for artifact in run.artifacts
        )
        if kept:
            keep(session, kept)
        tag(session, ((made[run.uid][0], run.meta) for run in self._new.values() if run.uid in made))
        there = self._find(session, [number for number, run in enumerate(self.runs) if run.uid not in made])
        # An earlier try may have claimed at another instant, and its answer was lost.
        logs = session.hear(histories([row.run_key for row in there.values() if self._is_claimed(row)]))
        seen: set[bytes] = set()
        created: list[Created] = []
        for number, run in enumerate(self.runs):
            row = self._row(run, *made[run.uid]) if run.uid in made else there.get(number)
            if row is None:
                created.append(refused(run.created_at, buried(session, run)))
                continue
            is_new = row.uid == run.uid and run.uid not in seen
            seen.add(run.uid)
            claim = None if not is_new else self._claim(row, logs.get(row.run_key))
            created.append(Created(row, is_new, claim))
        return created

    def _row(self, run: NewRun, key: int, worker: int | None) -> RunRow:
        """The row of a run that was created here, claimed for a worker or not."""
        last = self._logs[run.uid][worker is not None]
        return creating.row(run, key, last, worker, delayed=creating.is_delayed(run, self._now))

    def _find(self, session: Session, numbers: list[int]) -> dict[int, RunRow]:
        if not numbers:
            return {}
        wanted = [self.runs[number] for number in numbers]
        found = session.fetch(
            "find_runs",
            texts([run.namespace for run in wanted]),
            texts([run.run_id for run in wanted]),
            texts([run.idempotency_key for run in wanted]),
        )
        return {numbers[row[0] - 1]: run_row(row[1:]) for row in found}

    def _is_claimed(self, row: RunRow) -> bool:
        """Whether a run was claimed as it was created, and nothing has happened since."""
        return row.worker_key == self._claim_for is not None and (row.epoch, row.seq) == (1, 2)

    def _claim(self, row: RunRow, log: list[Event] | None = None) -> Claim | None:
        """The claim that was made with the run, if one was."""
        if not self._is_claimed(row):
            return None
        return Claim(row, log or [Event(row.run_key, *event[1:]) for event in self._logs[row.uid]])

    def _columns(self, runs: Sequence[NewRun], routes: dict[bytes, int]) -> tuple[object, ...]:
        wakes = [run.delay_until if creating.is_delayed(run, self._now) else None for run in runs]
        logs = [self._logs[run.uid] for run in runs]
        return (
            texts([run.namespace for run in runs]),
            texts([run.run_id for run in runs]),
            byteas([run.uid for run in runs]),
            bigints([routes[run.uid] for run in runs]),
            bigints([run.created_at for run in runs]),
            nullable_bigints(
                [creating.rank(run) if wake is None else None for run, wake in zip(runs, wakes, strict=True)]
            ),
            nullable_bigints(wakes),
            nullable_bigints([run.deadline_at for run in runs]),
            bigints([creating.priority(run) for run in runs]),
            texts([run.partition for run in runs]),
            nullable_bigints([run.parent_key for run in runs]),
            texts([run.idempotency_key for run in runs]),
            byteas([run.meta for run in runs]),
            bigints([run.codec for run in runs]),
            byteas([run.payload for run in runs]),
            self._claim_for,
            self._facts,
            byteas([run.origin for run in runs]),
            byteas([log[0].hash for log in logs]),
            bigints([log[1].at for log in logs]),
            byteas([log[1].hash for log in logs]),
            FORMAT,
        )


def keep(session: Session, artifacts: Sequence[tuple[int, Artifact]]) -> None:
    """Keep artifacts, and note which runs refer to them."""
    # In the order of their hashes, so that two that keep the same ones do not lock each other.
    each = sorted({artifact.hash: artifact for _, artifact in artifacts}.values())
    hashes = byteas([artifact.hash for artifact in each])
    sizes = bigints([artifact.size for artifact in each])
    data = byteas([artifact.data for artifact in each])
    # Those that are there already may be on their way out, as nobody uses them yet: then they are kept anew.
    while session.change("keep_artifacts", hashes, sizes, data) < len(each):
        if len(session.fetch("hold_artifacts", hashes)) == len(each):
            break
    uses = sorted({(artifact.hash, run_key) for run_key, artifact in artifacts})
    session.change("use_artifacts", byteas([use[0] for use in uses]), bigints([use[1] for use in uses]))


def get_runs(session: Session, run_keys: Sequence[int]) -> dict[int, RunRow]:
    """Rows by key, those that exist."""
    if not run_keys:
        return {}
    return {row[0]: run_row(row) for row in session.fetch("get_runs", bigints(run_keys))}
