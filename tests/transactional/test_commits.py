"""The user's database at its worst moment: COMMIT without an answer, sessions that are ended, a server out of reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

import perdure
from perdure import Retry, StepContext, parallel, step, workflow
from perdure.context import INJECTED
from perdure.errors import ColourError, DefinitionError, OutcomeUnknown, StepsTable
from perdure.model.transactions import row_id, seal
from perdure.transactional import Apsw, AsyncPsycopg, Psycopg, SQLAlchemy, SQLite
from tests.store.wire import wired
from tests.transactional.banks import moves
from tests.transactional.databases import furnish, look, open_database

AGAIN = Retry(max_attempts=4, initial_delay=0.01)


def transferring(
    source: Any, spoil: Callable[[Any, int], object] = lambda *_: None, *, retry: Retry | None = AGAIN
) -> Any:
    """A workflow with one transfer; ``spoil`` is called with the connection and the attempt, before its end."""

    async def later(*, ctx: StepContext[Any] = INJECTED) -> int:
        for statement in moves("a", 1):
            await source.connection().execute(statement)
        spoil(source.connection(), ctx.attempt)
        return ctx.attempt

    def now(*, ctx: StepContext[Any] = INJECTED) -> int:
        for statement in moves("a", 1):
            source.connection().execute(statement)
        spoil(source.connection(), ctx.attempt)
        return ctx.attempt

    decorate = step(transactional=source, retry=retry, name="transfer")
    return workflow(_of(decorate(later) if source.is_async else decorate(now)))


def _of(transfer: Any) -> Any:
    async def transferring() -> int:
        return await transfer.aio()

    return transferring


@pytest.fixture
def address(new_database: Callable[[str], str]) -> str:
    found = new_database("postgres")
    furnish(found)
    return found


SOURCES = {
    "async": lambda url: (AsyncPsycopg(url, settle="5s"), lambda: None),
    "pool": lambda url: (
        (pool := ConnectionPool(url, min_size=1, max_size=2, open=True))
        and (
            Psycopg(pool, settle="5s"),
            pool.close,
        )
    ),
}


@pytest.mark.postgres
@pytest.mark.parametrize("kind", list(SOURCES))
def test_a_commit_whose_answer_was_lost_is_found_to_be_there(address: str, tmp_path: Path, kind: str) -> None:
    with wired(address) as (wire, url):
        source, close = SOURCES[kind](url)

        def spoil(_connection: object, attempt: int) -> None:
            if attempt == 1:
                wire.cut_after(b"COMMIT")

        code = transferring(source, spoil, retry=None)
        # The tables are made first: that ends with a COMMIT too.
        perdure.run(transferring(source), run_id="warm", store=tmp_path / "s.db")
        assert perdure.run(code, run_id="r", store=tmp_path / "s.db") == 1
        assert wire.cuts == 1
        assert look(address, "SELECT entry FROM ledger") == [("a",), ("a",)]
        assert perdure.run(code, run_id="again", store=tmp_path / "s.db") in {1, 2}
        close()


@pytest.mark.postgres
@pytest.mark.parametrize("kind", list(SOURCES))
def test_a_session_that_is_ended_before_commit_is_an_attempt_that_failed(
    address: str, tmp_path: Path, kind: str
) -> None:
    source, close = SOURCES[kind](address)

    def spoil(connection: Any, attempt: int) -> None:
        if attempt == 1:
            with closing(open_database(address)) as other:
                other.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))

    assert perdure.run(transferring(source, spoil), run_id="r", store=tmp_path / "s.db") == 2
    assert look(address, "SELECT entry FROM ledger") == [("a",)]
    close()


@pytest.mark.postgres
def test_of_a_pool_no_connection_is_lost_nor_returned_in_a_transaction(address: str, tmp_path: Path) -> None:
    async def life() -> list[Any]:
        async with AsyncConnectionPool(address, min_size=2, max_size=2, open=False) as pool:
            source = AsyncPsycopg(pool, settle="5s")

            @step(transactional=source)
            async def transfer(how: str) -> str:
                connection = source.connection()
                await connection.execute("INSERT INTO ledger VALUES (%s, 1)", (how,))
                if how == "fails":
                    await connection.execute("SELECT 1 / 0")
                if how == "hangs":
                    await connection.execute("SELECT pg_sleep(60)")
                if how == "dies":
                    connection.pgconn.finish()
                return how

            @workflow
            async def several() -> list[Any]:
                hows = ["fails", "hangs", "passes", "dies", "passes", "hangs"]
                calls = [transfer.with_options(timeout=0.2 if how == "hangs" else None)(how) for how in hows]
                return [type(one).__name__ for one in await parallel(*calls, return_exceptions=True)]

            said = await perdure.arun(several, run_id="r", store=tmp_path / "s.db")
            async with pool.connection(timeout=5) as one, pool.connection(timeout=5) as other:
                states = [connection.info.transaction_status.name for connection in (one, other)]
            return [*said, *states]

    assert asyncio.run(life()) == [
        "DivisionByZero", "StepTimeout", "str", "OperationalError", "str", "StepTimeout", "IDLE", "IDLE",
    ]  # fmt: skip
    assert look(address, "SELECT entry FROM ledger") == [("passes",), ("passes",)]
    assert look(address, "SELECT count(*) FROM perdure_steps") == [(6,)]


@pytest.mark.postgres
def test_while_the_database_is_out_of_reach_the_outcome_is_unknown_and_a_resume_finds_out(
    address: str, tmp_path: Path
) -> None:
    with wired(address) as (wire, url):
        source = AsyncPsycopg(url, settle=0.3)
        perdure.run(transferring(source), run_id="warm", store=tmp_path / "s.db")

        @step(transactional=source)
        async def transfer() -> str:
            for statement in moves("b", 1):
                await source.connection().execute(statement)
            wire.cut_after(b"COMMIT", for_good=True)
            return "done"

        @workflow
        async def once() -> str:
            return await transfer()

        with pytest.raises(OutcomeUnknown) as told:
            perdure.run(once, run_id="r", store=tmp_path / "s.db")
        assert told.value.step == "transfer"
        wire.accept()
        assert perdure.run(once, run_id="r", store=tmp_path / "s.db") == "done"
    assert look(address, "SELECT entry FROM ledger WHERE entry = 'b'") == [("b",)]


@pytest.mark.postgres
def test_of_many_who_make_the_tables_at_once_all_find_them(address: str) -> None:
    async def all_at_once() -> None:
        await asyncio.gather(*(AsyncPsycopg(address).migrate() for _ in range(6)))

    asyncio.run(all_at_once())


@pytest.mark.postgres
def test_who_may_not_make_tables_is_told_what_to_do_and_a_schema_may_be_named(address: str, tmp_path: Path) -> None:
    schema = address.rpartition("%3D")[2]
    plain = address.partition("options")[0].rstrip("?&")
    source = Psycopg(plain, schema=schema, create=False)

    @step(transactional=source, name="one")
    def one() -> int:
        return 1

    @workflow(name="once")
    async def once() -> int:
        return await one.aio()

    with pytest.raises(StepsTable) as told:
        perdure.run(once, run_id="r", store=tmp_path / "s.db")
    assert "source.migrate()" in told.value.advice
    assert f'"{schema}".perdure_steps ' in source.sql()
    source.migrate()
    source.migrate()
    assert perdure.run(once, run_id="r", store=tmp_path / "s.db") == 1
    assert look(address, "SELECT step FROM perdure_steps") == [("one#1",)]


def test_the_wrong_colour_and_what_is_no_source_are_refused_where_they_are_written(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")

    async def later() -> None: ...
    def now() -> None: ...

    for source, fn, other in (
        (SQLite(path), later, "plain def"),
        (Apsw(path), later, "plain def"),
        (AsyncPsycopg(""), now, "use Psycopg"),
        (Psycopg(""), later, "use AsyncPsycopg"),
    ):
        with pytest.raises(ColourError) as told:
            step(transactional=source)(fn)
        assert other in told.value.advice
    for wrong in ("postgresql://", path, object()):
        with pytest.raises(DefinitionError):
            step(transactional=wrong)(now)  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match="exactly once"):
        step(transactional=SQLite(path), at_most_once=True)(now)
    for make in (SQLite, Apsw, Psycopg, SQLAlchemy):
        with pytest.raises(DefinitionError):
            make(3)  # type: ignore[call-overload]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "bank.db")
    furnish(path)
    return path


def run_with_a_row(file: str, store: Path, outcome: bytes | None, **changes: Any) -> Any:
    """Run a workflow of one step of which a row is there already, as after a crash behind the user's commit."""
    source = SQLite(file)
    source.migrate()

    @step(transactional=source)
    def transfer(what: str) -> str:
        source.connection().execute("INSERT INTO ledger VALUES (?, 1)", (what,))
        return "new"

    @workflow
    async def once() -> str:
        return await transfer.aio("a")

    async def create() -> bytes:
        async with perdure.Engine(str(store), workflows=[once]).client() as client:
            await client.enqueue(once, run_id="r")
            return (await client.get("r").row()).uid

    name = row_id("", asyncio.run(create()), "transfer#1")
    row: dict[str, Any] = {"id": name, "epoch": 1, "outcome": outcome, "args": b'{"what":"a"}'} | changes
    row.setdefault("seal", None if outcome is None else seal(name, outcome, row["args"]))
    with closing(open_database(file)) as connection:
        connection.execute(
            "INSERT INTO perdure_steps (id, run, step, epoch, attempt, at, outcome, args, seal) "
            "VALUES (:id, 'r', 'transfer#1', :epoch, 1, 1, :outcome, :args, :seal)",
            row,
        )
    return perdure.run(once, run_id="r", store=store)


def test_a_row_with_an_outcome_is_taken_for_the_steps_and_its_body_is_not_begun(file: str, tmp_path: Path) -> None:
    assert run_with_a_row(file, tmp_path / "s.db", b'"old"') == "old"
    assert look(file, "SELECT * FROM ledger") == []


def test_a_marker_of_an_earlier_holder_is_taken_over(file: str, tmp_path: Path) -> None:
    assert run_with_a_row(file, tmp_path / "s.db", None, epoch=1) == "new"
    assert look(file, "SELECT entry FROM ledger") == [("a",)]


@pytest.mark.parametrize(
    ("outcome", "changes", "code"),
    [
        pytest.param(b'"old"', {"args": b'{"what":"b"}'}, "drift", id="other-arguments"),
        pytest.param(b"7", {}, "drift", id="another-type"),
        pytest.param(b'"old"', {"seal": b"x" * 32}, "integrity", id="another-byte"),
        pytest.param(None, {"epoch": 99}, "integrity", id="a-later-holder-while-the-run-is-ours"),
    ],
)
def test_a_row_that_does_not_fit_blocks_the_run_and_nothing_is_done(
    file: str, tmp_path: Path, outcome: bytes | None, changes: dict[str, Any], code: str
) -> None:
    with pytest.raises(perdure.PerdureError) as told:
        run_with_a_row(file, tmp_path / "s.db", outcome, **changes)
    assert told.value.code == code
    assert look(file, "SELECT * FROM ledger") == []


def test_what_is_too_old_goes_by_itself_if_that_is_wanted(file: str, tmp_path: Path) -> None:
    run_with_a_row(file, tmp_path / "s.db", b'"old"')
    source = SQLite(file, keep="1h")

    @step(transactional=source)
    def another() -> None: ...

    @workflow
    async def later() -> None:
        await another.aio()

    perdure.run(later, run_id="later", store=tmp_path / "s.db")
    assert look(file, "SELECT step FROM perdure_steps") == [("another#1",)]


def test_artifacts_are_refused_and_large_results_are_whole_in_the_row(file: str, tmp_path: Path) -> None:
    source = SQLite(file)

    @step(transactional=source)
    def large(*, ctx: StepContext[Any] = INJECTED) -> str:
        with pytest.raises(DefinitionError, match="keeps no artifacts"):
            ctx.artifact("a", b"")
        return "x" * 100_000

    @workflow
    async def once() -> int:
        return len(await large.aio())

    assert perdure.run(once, run_id="r", store=tmp_path / "s.db") == 100_000
    assert look(file, "SELECT length(outcome) FROM perdure_steps") == [(100_002,)]
