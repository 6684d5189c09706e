"""Fixtures for every test: PostgreSQL servers, and stores on each database."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import pytest

if TYPE_CHECKING:
    from tests.servers.ground import Ground, Own
    from tests.servers.made import Made

TARGETS = ["sqlite", "postgres"]
"""The databases that every test of stores and engines runs on."""
MARKS = {"sqlite": (), "postgres": (pytest.mark.postgres,)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what uses a store on each database, unless it is marked as being about one of them, or about none."""
    if "database" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("only")
        names = only.args if only else TARGETS
        metafunc.parametrize("database", [pytest.param(name, marks=MARKS[name]) for name in names])


@pytest.fixture
def new_store(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Callable[[], str]:
    """What gives addresses of stores on one database, each of a store that is not there yet."""
    if database == "postgres":
        return request.getfixturevalue("new_schema")
    numbers = itertools.count(1)
    return lambda: str(tmp_path / f"store-{next(numbers)}.db")


@pytest.fixture
def made_store(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Callable[[], str]:
    """What gives addresses of empty stores on one database: copied, since making one is slow."""
    if database == "postgres":
        return request.getfixturevalue("made_schema")
    empty = request.getfixturevalue("empty_store")
    numbers = itertools.count(1)
    return lambda: str(shutil.copy(empty, tmp_path / f"made-{next(numbers)}.db"))


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an empty store on SQLite, to be copied."""
    from perdure.store.open import open_store

    path = tmp_path_factory.mktemp("empty") / "store.db"
    open_store(path).close()
    return path


@pytest.fixture(scope="session")
def made(request: pytest.FixtureRequest) -> Iterator[Made | None]:
    """The stores that are there already on the shared server; None on a server of somebody else's."""
    from tests.servers.made import Made

    if "PERDURE_TEST_POSTGRES_URL" in os.environ:
        yield None
        return
    made = Made(request.getfixturevalue("ground"))
    yield made
    made.close()


@pytest.fixture
def made_schema(request: pytest.FixtureRequest, made: Made | None) -> Iterator[Callable[[], str]]:
    """What gives addresses of empty stores on PostgreSQL; they are gone after the test."""
    if made is None:
        yield request.getfixturevalue("new_schema")
        return
    yield made.take
    made.end_of_test()


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Where the servers of this session live; the processes of one session have one."""
    from tests.servers import binaries
    from tests.servers.ground import Ground

    base = tmp_path_factory.getbasetemp()
    ground = Ground(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base, binaries.wanted())
    yield ground
    ground.leave()


@pytest.fixture(scope="session")
def postgres_base(request: pytest.FixtureRequest) -> str:
    """The URL of the server that tests share: PERDURE_TEST_POSTGRES_URL, or one of our own."""
    given = os.environ.get("PERDURE_TEST_POSTGRES_URL")
    return given or request.getfixturevalue("ground").shared().url()


@pytest.fixture
def new_schema(postgres_base: str) -> Iterator[Callable[[], str]]:
    """What gives addresses of schemas of the shared server; they are not there yet, and are gone after the test."""
    import psycopg

    schemas: list[str] = []

    def new() -> str:
        schemas.append(f"test_{os.urandom(5).hex()}")
        return with_schema(postgres_base, schemas[-1])

    yield new
    with psycopg.connect(postgres_base, autocommit=True) as connection:
        connection.execute("SET client_min_messages = error; SET lock_timeout = '10s'")  # no session outlives its test
        for schema in schemas:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture
def postgres_url(new_schema: Callable[[], str]) -> str:
    """The address of a schema that no other test has."""
    return new_schema()


def with_schema(url: str, schema: str) -> str:
    """The same address with another schema."""
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query) if name != "schema"]
    return urlunsplit(parts._replace(query=urlencode([*query, ("schema", schema)])))


@pytest.fixture
def servers(ground: Ground) -> Iterator[Own]:
    """Servers of the test's own; they are gone when it ends."""
    with ground.own() as own:
        yield own
