from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.crash.procs import Crew
from tests.transactional.banks import MAKERS, ON_SQLITE, Bank, make_bank

KINDS = [pytest.param(kind, marks=() if kind in ON_SQLITE else pytest.mark.postgres) for kind in MAKERS]


@pytest.fixture
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """What gives addresses of empty databases, ``sqlite`` or ``postgres``, which are gone after the test."""
    schemas: list[str] = []
    numbers = itertools.count(1)

    def new(which: str) -> str:
        if which == "sqlite":
            return str(tmp_path / f"bank-{next(numbers)}.db")
        base = request.getfixturevalue("postgres_base")
        schemas.append(f"bank_{os.urandom(5).hex()}")
        with psycopg.connect(base, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schemas[-1]}")
        return f"{base}{'&' if '?' in base else '?'}options=-csearch_path%3D{schemas[-1]}"

    yield new
    if schemas:
        with psycopg.connect(request.getfixturevalue("postgres_base"), autocommit=True) as connection:
            connection.execute("SET client_min_messages = error; SET lock_timeout = '10s'")  # no session is left
            for schema in schemas:
                connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def crew(tmp_path: Path, made_store: Callable[[], str]) -> Iterator[Crew]:
    crew = Crew(tmp_path, made_store())
    yield crew
    crew.close()


@pytest.fixture(params=KINDS)
def bank(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Bank]:
    """A database of each kind."""
    yield from _bank(request.param, new_database)


@pytest.fixture(params=[kind for kind in KINDS if kind.values[0] in {"sqlite3", "async-psycopg"}])
def plain_bank(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Iterator[Bank]:
    """A database of two kinds, for what does not depend on them."""
    yield from _bank(request.param, new_database)


def _bank(kind: str, new_database: Callable[[str], str]) -> Iterator[Bank]:
    bank = make_bank(kind, new_database("sqlite" if kind in ON_SQLITE else "postgres"))
    yield bank
    bank.close()
