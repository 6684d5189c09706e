"""What comes in from outside for runs: put into their inboxes, and read by those who hold them."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from perdure.model.records import Delivery, Status
from perdure.store import rows
from perdure.store.creating import PRIORITY_WEIGHT
from perdure.store.hearing import Hearer, is_deaf, wakes
from perdure.store.postgres.arrays import bigints, byteas, texts
from perdure.store.postgres.runs import keep
from perdure.store.postgres.words import ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import InboxRow, Message
    from perdure.store.postgres.session import Session
    from perdure.store.postgres.words import Words


def unread(worker_key: int) -> Words[list[tuple[int, int, list[InboxRow]]]]:
    """Run key, inbox counter and rows of every held run that has any."""
    found = yield ask("unread", worker_key)
    return [
        (run_key, counter, [rows.inbox_row(row[1:]) for row in group])
        for (counter, run_key), group in groupby(found, itemgetter(0, 2))
    ]


def find_keys(session: Session, messages: Sequence[Message]) -> list[int | None]:
    """Return the keys of the runs that messages are for, as far as they are there."""
    keys = [message.run_key for message in messages]
    named = [number for number, key in enumerate(keys) if key is None]
    if named:
        namespaces = texts([messages[number].namespace for number in named])
        run_ids = texts([messages[number].run_id for number in named])
        for place, key in session.fetch("find_keys", namespaces, run_ids):
            keys[named[place - 1]] = key
    return keys


def hear(session: Session, messages: Sequence[Message]) -> list[Hearer | None]:
    """Lock the runs that messages are for, and look at them; None where there is none."""
    while True:
        keys = find_keys(session, messages)
        found = {row[0]: row for row in session.fetch("hearers", bigints(sorted({key for key in keys if key})))}
        each = [None if key is None else found.get(key) for key in keys]
        # Whoever had the id may have left it to a successor while its lock was waited for.
        if all(
            row is None or message.run_key is not None or row[4:] == (message.namespace, message.run_id)
            for message, row in zip(messages, each, strict=True)
        ):
            return [None if row is None else Hearer(row[0], Status(row[1]), row[2], row[3]) for row in each]


def post(session: Session, messages: Sequence[Message], runs: Sequence[Hearer | None], *, now: int) -> list[Delivery]:
    """Put news into the inboxes of locked runs, and make those claimable that wait for it."""
    pairs = list(zip(messages, runs, strict=True))
    known = _known(session, pairs)
    told: list[Delivery] = []
    news: list[tuple[Message, Hearer]] = []
    for message, run in pairs:
        if run is None:
            told.append(Delivery.UNKNOWN)
        elif (mark := (run.run_key, message.name, message.dedup)) in known:
            told.append(Delivery.DUPLICATE)
        elif is_deaf(message.kind, run.status):
            told.append(Delivery.ENDED)
        else:
            told.append(Delivery.DELIVERED)
            news.append((message, run))
            if None not in mark:
                known.add(mark)
    if news:
        _insert(session, news, now)
    return told


_Mark = tuple[int, str | None, str | None]
"""Run key, name and dedup key: what is posted once."""


def _known(session: Session, pairs: Sequence[tuple[Message, Hearer | None]]) -> set[_Mark]:
    marks = [
        (run.run_key, message.name, message.dedup)
        for message, run in pairs
        if run is not None and message.dedup is not None
    ]
    if not marks:
        return set()
    run_keys, names, dedups = zip(*marks, strict=True)
    return {tuple(row) for row in session.fetch("posted", bigints(run_keys), texts(names), texts(dedups))}


def _insert(session: Session, news: Sequence[tuple[Message, Hearer]], now: int) -> None:
    many: Counter[int] = Counter()
    woken: Counter[int] = Counter()
    for message, run in news:
        many[run.run_key] += 1
        woken[run.run_key] += wakes(message, run)
    session.change(
        "post",
        bigints([run.run_key for _, run in news]),
        bigints([message.kind for message, _ in news]),
        texts([message.name for message, _ in news]),
        bigints([message.codec for message, _ in news]),
        byteas([message.payload for message, _ in news]),
        texts([message.dedup for message, _ in news]),
        now,
        PRIORITY_WEIGHT,
        bigints(list(many)),
        bigints(list(many.values())),
        bigints([woken[run_key] for run_key in many]),
        texts([message.author for message, _ in news]),
    )
    kept = [(run.run_key, artifact) for message, run in news for artifact in message.artifacts]
    if kept:
        keep(session, kept)


__all__ = ["find_keys", "hear", "post", "unread"]
