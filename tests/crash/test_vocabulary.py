"""G1, G2, G8 for every word at once: a process dies, whatever its run is about, and nothing is lost, doubled or late.

`make storm` has it die whenever each point is reached, and a few hundred times in between.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread

import pytest

from perdure import Engine
from perdure.model import payloads
from perdure.model.history import fold
from perdure.model.records import Event, Kind, RunRow, Status
from perdure.runtime import points
from perdure.store.open import is_postgres, open_store
from perdure.store.protocol import Filter
from tests.crash.ledger import Entry
from tests.crash.procs import SLACK, Bomb, Count, Crew, audit_log, ended
from tests.crash.vocabulary import LIVES, NUMBERS, RESULT, WORDS, word

pytestmark = [pytest.mark.crash, pytest.mark.slow]
STORM = bool(os.environ.get("PERDURE_STORM"))
NewStore = Callable[[], str]
NAME = "says_everything"
POINTS = (
    points.CREATE,
    points.CREATED,
    points.CLAIM,
    points.CLAIMED,
    points.COMMIT,
    points.COMMITTED,
    points.BODY,
    points.BODY_ENDED,
)
AT_ONCE = 2
CHAINS = 30 if STORM else 1
"""Runs that are killed again and again, until they have ended all the same."""
IN_THE_RUN = ("set_out#1", "ask#1", "borrow#1", "bring_back#1", "bring_back#2", "fall#1")


def say(crew: Crew, n: int) -> None:
    """Say the n-th word from here, and once more, as one does who has not heard that it arrived."""

    async def twice() -> list[bool]:
        async with Engine(crew.store).client() as client:
            handle = client.get("r")
            return [await handle.signal(word, WORDS[n], idempotency_key=f"word {n}") for _ in range(2)]

    assert asyncio.run(twice()) == [True, False]


@contextmanager
def answering(crew: Crew, first: int) -> Iterator[None]:
    """Meanwhile, say each word from the given one on as soon as it is asked for."""
    failed: list[BaseException] = []

    def answer() -> None:
        try:
            for n in range(first, len(WORDS)):
                crew.ledger.until_said("asked", key=str(n))
                say(crew, n)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            failed.append(error)

    thread = Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert failed == []


# -- what must be so in the end


def all_runs(crew: Crew) -> list[RunRow]:
    with open_store(crew.store) as store:
        return store.list_runs(Filter())


def lives_of(entries: list[Entry]) -> list[list[Entry]]:
    """What the bodies of the run itself said, by its lives: both have its id."""
    own = [entry for entry in entries if entry.run == "r" and entry.what == "begin"]
    second = next(n for n, entry in enumerate(own) if entry.key == "set_out#1" and entry.idem != own[0].idem)
    return [own[:second], own[second:]]


def check(crew: Crew, label: str, kills: int) -> None:
    slack = SLACK if is_postgres(crew.store) else 0
    entries = crew.ledger.entries()
    lives = lives_of(entries)
    logs = [crew.events(run_id) for run_id in ("r~1", "r")]
    begun = Counter(entry.key for life in lives for entry in life)
    for life, log in zip(lives, logs, strict=True):
        audit_log(log, life, slack)
    assert set(begun) == {*IN_THE_RUN, "ask#2"}, label
    assert heard(logs) == list(WORDS), f"{label}: a word was lost, or heard twice"
    check_undone(entries, logs, label, kills)

    rows = all_runs(crew)
    assert {row.status for row in rows} == {Status.COMPLETED}, label
    children = [row.run_id for row in rows if row.workflow == "errand"]
    assert len(children) == LIVES * len(NUMBERS), f"{label}: {children}"
    assert len(rows) == len(children) + LIVES
    fetched = [entry for entry in entries if entry.key == "fetch#1"]
    for child in children:
        audit_log(crew.events(child), [entry for entry in fetched if entry.run == child], slack)
    assert {entry.run for entry in fetched} == set(children), label
    assert len({entry.idem for entry in fetched}) == len(children), label

    once = LIVES * len(IN_THE_RUN) + 1 + len(children)
    again = begun.total() + len(fetched) - once
    assert 0 <= again <= 3 * kills, f"{label}: {again} bodies ran again after {kills} kills"


def heard(logs: list[list[Event]]) -> list[str]:
    """The words that the run has received, in all its lives."""
    received = [event for event in itertools.chain(*logs) if event.kind == Kind.SIGNAL_RECEIVED]
    return [
        word.codec.decode(event.payload or b"")
        for event in received
        if payloads.fields(event.args)["name"] == word.name
    ]


def check_undone(entries: list[Entry], logs: list[list[Event]], label: str, kills: int) -> None:
    """What was pushed is brought back in every life, in its order, after it was borrowed, and under one key each."""
    for life, log in enumerate(logs):
        borrowed = [entry for entry in entries if (entry.what, entry.key) == ("borrowed", f"lent {life}")]
        assert borrowed, label
        order = []
        for thing in (f"lent {life}", f"kept {life}"):
            back = [entry for entry in entries if (entry.what, entry.key) == ("brought back", thing)]
            assert len({entry.idem for entry in back}) == 1, f"{label}: {thing} was brought back under several keys"
            assert 1 <= len(back) <= 1 + kills, label
            order += back
        assert max(entry.mono for entry in borrowed) < min(entry.mono for entry in order), label
        assert [entry.mono for entry in order] == sorted(entry.mono for entry in order), label
        view = fold(log)
        assert [key for key in view.steps if key.startswith("bring_back")] == ["bring_back#2", "bring_back#1"], label
        assert all(view.steps[key].status == "completed" for key in ("bring_back#1", "bring_back#2")), label
    assert sum(entry.what == "brought back" for entry in entries) >= 2 * LIVES


# -- how it dies


def to_its_end(crew: Crew, first: BaseProcess, *, called: bool = True) -> int:
    """Wait for a process; if it died, the same call (or a worker) has to bring the run to its end. Returns kills."""
    died = ended(first) == -signal.SIGKILL
    if died and called:
        assert ended(crew.script(NAME, [], "r")) == 0
    elif died:
        crew.worker()
    assert crew.outcome("r") == RESULT
    return int(died)


def dies_at(crew: Crew, point: str, n: int, early: int) -> int:
    """Live a run whose first process dies at a point; ``early`` words are said before that process begins."""
    try:
        if early:  # and a worker goes on; else the same call
            crew.enqueue(NAME, [], "r")
            for spoken in range(early):
                say(crew, spoken)
        with answering(crew, early):
            died = to_its_end(crew, crew.script(NAME, [], "r", reached=Bomb(point, n)), called=not early)
        check(crew, f"{point} {n}, {early} early", died)
        return died
    finally:
        crew.close()


def learn(folder: Path, store: str) -> dict[str, int]:
    crew = Crew(folder, store)
    try:
        with answering(crew, 0):
            assert to_its_end(crew, crew.script(NAME, [], "r", reached=Count(crew.ledger))) == 0
        check(crew, "undisturbed", 0)
        said = Counter(entry.key for entry in crew.ledger.entries("point"))
        return {point: said[point] for point in POINTS}
    finally:
        crew.close()


@pytest.mark.timeout(600)
def test_a_run_goes_on_with_every_word_wherever_its_process_died(
    tmp_path: Path, database: str, made_store: NewStore
) -> None:
    seen = learn(tmp_path / "learn", made_store())
    assert all(seen.values()), seen
    if STORM:
        cases = [(point, n) for point, often in seen.items() for n in range(1, often + 1)]
    else:
        some = POINTS if database == "sqlite" else (points.COMMITTED, points.BODY_ENDED)
        # Not all half-way, so that a kill hits each part of the run's life.
        cases = [(point, max(1, seen[point] * (n + 1) // (len(some) + 1))) for n, point in enumerate(some)]
    with ThreadPoolExecutor(AT_ONCE) as two:
        lived = [
            two.submit(dies_at, Crew(tmp_path / f"{point}-{n}", made_store()), point, n, number % (len(WORDS) + 1))
            for number, (point, n) in enumerate(cases)
        ]
        died = sum(one.result() for one in lived)
    print(f"{died} kills at {len(cases)} points: {seen}")
    assert died > len(cases) / 2


def seen_enough(crew: Crew, enough: int, spoken: str, entries: list[Entry]) -> bool:
    """Whether a worker has reached so many points, or comes to no more before the next word is said."""
    if len(entries) >= enough or crew.ledger.entries("asked", key=spoken):
        return True
    return entries[-1].key == points.CLAIMED and crew.row("r").status.terminal


def dies_again_and_again(crew: Crew, shortest: int) -> int:
    """Kill one worker after the other when so many points have been reached; words are said when all are dead.

    Returns how many were killed before the run had ended.
    """
    try:
        crew.enqueue(NAME, [], "r")
        say(crew, 0)
        spoken, kills = 1, 0
        while not crew.row("r").status.terminal:
            worker = crew.worker(reached=Count(crew.ledger))
            enough = len(crew.ledger.entries()) + shortest + 5 * (kills % 4)
            crew.ledger.until(partial(seen_enough, crew, enough, str(spoken)))
            worker.kill()
            ended(worker)
            kills += 1
            if spoken < len(WORDS) and crew.ledger.entries("asked", key=str(spoken)):
                say(crew, spoken)
                spoken += 1
        crew.worker()
        assert crew.outcome("r") == RESULT
        crew.all_ended(*(row.run_id for row in all_runs(crew)))
        check(crew, f"{kills} kills", kills)
        return kills
    finally:
        crew.close()


@pytest.mark.timeout(600)
def test_a_run_that_says_every_word_survives_dozens_of_kills(
    tmp_path: Path, database: str, made_store: NewStore
) -> None:
    if database != "sqlite" and not STORM:
        pytest.skip("PERDURE_STORM is not set")
    shortest = 12
    with ThreadPoolExecutor(AT_ONCE) as two:
        lived = [
            two.submit(dies_again_and_again, Crew(tmp_path / str(n), made_store()), shortest + n) for n in range(CHAINS)
        ]
        kills = [one.result() for one in lived]
    print(f"{kills} kills")
    assert min(kills) >= 4
