"""Idempotency keys that stand for a run for a while only: freed, or the run put off, before the new one is created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.payloads import tags_of
from perdure.model.reuse import Found, gives_way, put_off
from perdure.store import creating
from perdure.store.postgres.arrays import bigints, byteas, texts
from perdure.store.postgres.tags import tag
from perdure.store.protocol import PAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perdure.model.records import Artifact, NewRun
    from perdure.store.postgres.session import Session


def make_way(
    session: Session, runs: Sequence[NewRun], routes: Mapping[bytes, int], now: int
) -> list[tuple[int, Artifact]]:
    """Free the keys of runs that do not stand in the way of new ones any more; put off what is debounced.

    Returns the artifacts of inputs that were replaced, to be kept with their runs.
    """
    kept: list[tuple[int, Artifact]] = []
    # Locked in the order of the keys, so that two that create the same ones do not lock each other.
    for run in sorted(runs, key=lambda run: (run.namespace, run.idempotency_key or "")):
        reuse = run.reuse
        if reuse is None or run.idempotency_key is None:
            continue
        for row in session.fetch("run_of_key", run.namespace, run.idempotency_key):
            found = Found._make(row)
            if gives_way(reuse, found, now):
                session.change("free_key", found.run_key)
            elif reuse.debounce is not None and found.route == routes[run.uid]:
                later = put_off(run, found)
                _put_off(session, later, found, now)
                kept += ((found.run_key, artifact) for artifact in later.artifacts)
        for row in session.fetch("purged_of_key", run.namespace, run.idempotency_key):
            if gives_way(reuse, Found._make(row), now):
                session.change("free_purged_key", run.namespace, run.idempotency_key)
    return kept


def _put_off(session: Session, run: NewRun, found: Found, now: int) -> None:
    key, first = found.run_key, creating.created(run, found.run_key)
    delayed = creating.is_delayed(run, now)
    session.change("put_off_event", key, first.codec, first.payload, first.args, first.hash)
    session.change(
        "put_off_run", key, first.hash, run.codec, run.delay_until if delayed else None,
        None if delayed else creating.rank(run), run.deadline_at, creating.priority(run), run.partition, run.meta,
    )  # fmt: skip
    tags = tags_of(found.meta) if found.meta else {}
    if tags:
        session.change("untag_run", texts(list(tags)), texts(list(tags.values())), key)
    tag(session, [(key, run.meta)])
    hashes = byteas([digest for digest, _ in session.fetch("lock_artifacts", bigints([key]), PAGE)])
    session.change("drop_uses", bigints([key]), hashes)
    session.change("drop_artifacts", hashes)
