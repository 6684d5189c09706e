"""The pages of the schema and of statuses say what stores are."""

from __future__ import annotations

import re
from collections.abc import Callable

import apsw

from perdure import Status
from perdure.operations.listing import CANCELLABLE
from perdure.store.controlling import PAUSABLE, RESUMABLE
from tests.docs.pages import DOCS


def told() -> dict[frozenset[str], set[str]]:
    """The columns that the page has, by the tables of each section."""
    page = (DOCS / "reference" / "schema.md").read_text("utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    return {
        frozenset(section.splitlines()[0].split(", ")): {
            name
            for cell in re.findall(r"^\| (`.+?`) \|", section, flags=re.MULTILINE)
            for name in re.findall(r"\w+", cell)
        }
        for section in sections
        if "|---|" in section
    }


def columns(store: str) -> dict[str, set[str]]:
    """The columns that the tables of a store have."""
    if "://" not in store:
        with apsw.Connection(store, flags=apsw.SQLITE_OPEN_READONLY) as connection:
            rows = connection.execute(
                "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_xinfo(t.name) c "
                "WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'"
            ).fetchall()
        connection.close()
    else:
        import psycopg

        address, schema = store.split("?schema=")
        with psycopg.connect(address) as session:
            rows = session.execute(
                "SELECT table_name, column_name FROM information_schema.columns c JOIN information_schema.tables t "
                "USING (table_schema, table_name) WHERE t.table_schema = %s AND table_type = 'BASE TABLE'",
                [schema],
            ).fetchall()
    found: dict[str, set[str]] = {}
    for table, column in rows:
        found.setdefault(str(table), set()).add(str(column))
    return found


def test_the_page_has_every_table_and_every_column(made_store: Callable[[], str], database: str) -> None:
    found = columns(made_store())
    page = told()
    assert sorted(name for names in page for name in names) == sorted(found)
    for names, said in page.items():
        there = set().union(*(found[name] for name in names))
        assert said == there | ({"lock_key"} if "workers" in names and database == "sqlite" else set()), names


def test_the_page_has_every_status_and_what_can_be_done_in_it() -> None:
    page = (DOCS / "reference" / "statuses.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$", page, flags=re.MULTILINE)
    assert rows == [
        (
            one.word,
            *("yes" if it else "no" for it in (one.terminal, one in CANCELLABLE, one in PAUSABLE, one in RESUMABLE)),
        )
        for one in Status
    ]
