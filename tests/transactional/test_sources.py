"""Transactional steps over every kind of source: what happens to the user's database, and what the log says of it."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

import perdure
from perdure import Engine, Retry, StepContext, step, workflow
from perdure.context import INJECTED
from perdure.errors import NoTransaction, StepTimeout
from perdure.testing import env, explore_crashes
from perdure.workflow import Workflow
from tests.transactional.banks import MAKERS, ON_SQLITE, Bank
from tests.transactional.databases import look

FAST = Retry(max_attempts=3, initial_delay=0.001)


STORM = bool(os.environ.get("PERDURE_STORM"))
EXPLORED = [
    pytest.param(kind, marks=() if kind in ON_SQLITE else pytest.mark.postgres)
    for kind in MAKERS
    # The thread of aiosqlite outlives a death that is only simulated, and keeps the file locked.
    if (kind in {"sqlite3", "async-psycopg", "sqlalchemy-postgres-session"} or STORM) and "aiosqlite" not in kind
]


class Refused(Exception):
    pass


def transfers(bank: Bank, *, retry: Retry | None = None, fails: int = 0, **options: Any) -> Any:
    """A step that transfers, in the colour of the bank; so many of its attempts fail after they have."""
    if bank.source.is_async:

        @step(transactional=bank.source, retry=retry, name="transfer", **options)
        async def transfer(entry: str, amount: int, *, ctx: StepContext[Any] = INJECTED) -> str:
            await bank.move_async(entry, amount)
            if ctx.attempt <= fails:
                raise Refused(entry)
            return f"{entry} done"
    else:

        @step(transactional=bank.source, retry=retry, name="transfer", **options)
        def transfer(entry: str, amount: int, *, ctx: StepContext[Any] = INJECTED) -> str:
            bank.move(entry, amount)
            if ctx.attempt <= fails:
                raise Refused(entry)
            return f"{entry} done"

    return transfer


def flow(transfer: Any, *, catch: bool = False) -> Workflow[str, str]:
    @workflow(name="flow")
    async def flow(entry: str) -> str:
        try:
            return await transfer.aio(entry, 7)  # type: ignore[no-any-return]
        except Refused:
            if not catch:
                raise
            return "refused"

    return flow


def run(code: Workflow[Any, Any], value: object, store: Path, run_id: str = "r", **options: Any) -> Any:
    return perdure.run(code, value, run_id=run_id, store=store, **options)


def test_effects_and_outcome_are_committed_together(bank: Bank, tmp_path: Path) -> None:
    code = flow(transfers(bank))
    assert run(code, "a", tmp_path / "s.db") == "a done"
    assert bank.entries == ["a"]
    assert bank.rows == [("transfer#1", 1, True)]
    bank.check()
    assert run(code, "a", tmp_path / "s.db") == "a done"
    assert bank.entries == ["a"]


def test_an_attempt_that_fails_leaves_a_marker_and_the_next_one_is_a_transaction_of_its_own(
    bank: Bank, tmp_path: Path
) -> None:
    assert run(flow(transfers(bank, fails=2, retry=FAST)), "a", tmp_path / "s.db") == "a done"
    assert bank.entries == ["a"]
    assert run(flow(transfers(bank, fails=9), catch=True), "b", tmp_path / "s.db", "s") == "refused"
    assert bank.entries == ["a"]
    assert sorted(done for _, _, done in bank.rows) == [False, True]
    bank.check()


@pytest.mark.parametrize("bank", EXPLORED, indirect=True)
def test_wherever_the_process_dies_the_transfer_happens_once(bank: Bank, tmp_path: Path) -> None:
    made = 0

    def tools() -> Bank:
        nonlocal made
        made = len(bank.entries)
        return bank

    def check(bank: Bank) -> None:
        assert len(bank.entries) == made + 2, bank.entries
        bank.check()

    transfer = transfers(bank, fails=1, retry=FAST)

    @workflow
    async def both(entry: str) -> list[str]:
        return await asyncio.gather(transfer.aio(entry, 1), transfer.aio(entry, 1))

    # On one SQLite file bodies go one after the other; a dead process that is simulated keeps its thread's lock awhile.
    report = explore_crashes(both, "x", tools=tools, check=check, limit=None if STORM else 6, interleavings=1)
    assert report.rows
    bank.check()


@pytest.mark.parametrize("how", ["commit", "statement"])
def test_a_body_that_ends_the_transaction_itself_fails_and_leaves_nothing(bank: Bank, tmp_path: Path, how: str) -> None:
    said_past_the_driver = [
        sqlalchemy.text(one) if "sqlalchemy" in bank.kind else one for one in ("COMMIT", "SELECT 1")
    ]
    has_commit = how == "commit" and bank.kind != "apsw"

    if bank.source.is_async:

        @step(transactional=bank.source, retry=FAST)
        async def meddle() -> None:
            await bank.move_async("m", 1)
            if has_commit:
                await bank.source.connection().commit()
            for statement in said_past_the_driver:
                await bank.source.connection().execute(statement)
    else:

        @step(transactional=bank.source, retry=FAST)
        def meddle() -> None:
            bank.move("m", 1)
            if has_commit:
                bank.source.connection().commit()
            for statement in said_past_the_driver:
                bank.source.connection().execute(statement)

    @workflow
    async def meddling() -> str:
        try:
            await meddle.aio()
        except Exception as error:  # noqa: BLE001 - the driver's own refusal serves as well
            return type(error).__name__
        return "passed"

    said = run(meddling, None, tmp_path / "s.db")
    if how == "commit" or bank.kind in {"sqlite3", "apsw"}:
        assert said in {"TransactionEnded", "ProgrammingError"}
        assert bank.entries == []
    else:
        # A text that is sent past the driver cannot be held back on PostgreSQL, nor by SQLAlchemy; it is not repeated.
        assert said == "TransactionEnded"
        assert bank.entries == ["m"]
    bank.check()


def test_a_timeout_rolls_back_and_says_so(bank: Bank, tmp_path: Path) -> None:
    if bank.source.is_async:

        @step(transactional=bank.source, timeout=0.2)
        async def slow() -> None:
            await bank.move_async("slow", 1)
            await asyncio.Event().wait()
    else:

        @step(transactional=bank.source, timeout=0.2)
        def slow(*, ctx: StepContext[Any] = INJECTED) -> None:
            bank.move("slow", 1)
            while not ctx.cancelled:
                pass

    @workflow
    async def waits() -> str:
        with pytest.raises(StepTimeout):
            await slow.aio()
        return "timed out"

    assert run(waits, None, tmp_path / "s.db") == "timed out"
    assert bank.entries == []
    assert bank.rows == [("slow#1", 1, False)]
    # The connection is as good as new.
    assert run(flow(transfers(bank)), "a", tmp_path / "s.db", "again") == "a done"


def test_a_fork_does_the_step_anew_unless_it_keeps_its_origins_keys(plain_bank: Bank, tmp_path: Path) -> None:
    code = flow(transfers(plain_bank))

    async def fork() -> list[Any]:
        async with Engine(str(tmp_path / "s.db"), workflows=[code]) as engine:
            await engine.run(code, "a", run_id="r")
            origin = engine.get("r", code)
            kept = await origin.fork(from_step="transfer#1", run_id="kept", keep_keys=True)
            anew = await origin.fork(from_step="transfer#1", run_id="anew")
            return [await kept.result(), await anew.result()]

    assert asyncio.run(fork()) == ["a done", "a done"]
    assert plain_bank.entries == ["a", "a"]
    assert [(row[0], row[2]) for row in plain_bank.rows] == [("transfer#1", True)] * 2
    plain_bank.check()


def test_a_failed_run_is_resumed_in_a_new_transaction(plain_bank: Bank, tmp_path: Path) -> None:
    code = flow(transfers(plain_bank, fails=1))
    with pytest.raises(Refused):
        run(code, "a", tmp_path / "s.db")
    assert plain_bank.entries == []
    assert run(code, "a", tmp_path / "s.db") == "a done"
    assert plain_bank.entries == ["a"]
    plain_bank.check()


def test_a_fake_needs_no_database_and_a_replay_touches_none(plain_bank: Bank, tmp_path: Path) -> None:
    transfer = transfers(plain_bank)
    code = flow(transfer)

    async def faked() -> Any:
        async with env(workflows=[code]) as testing:
            with testing.override(transfer, "fake"):
                return await testing.run(code, "a")

    assert asyncio.run(faked()) == "fake"
    assert plain_bank.entries == []
    assert look(plain_bank.address, "SELECT count(*) FROM accounts") == [(2,)]


def test_the_source_serves_outside_of_runs_too(bank: Bank) -> None:
    with pytest.raises(NoTransaction):
        bank.source.connection()

    async def outside() -> None:
        async with bank.source.begin():
            await bank.move_async("out", 3)
        with suppress(Refused):
            async with bank.source.begin():
                await bank.move_async("never", 3)
                raise Refused

    if bank.source.is_async:
        asyncio.run(outside())
    else:
        with bank.source.begin():
            bank.move("out", 3)
            with pytest.raises(NoTransaction), bank.source.begin():
                pass
        with suppress(Refused), bank.source.begin():
            bank.move("never", 3)
            raise Refused
    assert bank.entries == ["out"]
    bank.check()


def test_rows_go_when_they_are_told_to(plain_bank: Bank, tmp_path: Path) -> None:
    run(flow(transfers(plain_bank)), "a", tmp_path / "s.db")

    def forget(older_than: float) -> int:
        gone = plain_bank.source.forget(older_than=older_than)
        return asyncio.run(gone) if asyncio.iscoroutine(gone) else gone

    assert forget(3600) == 0
    assert forget(1e-6) == 1
    assert plain_bank.rows == []
