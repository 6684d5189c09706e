"""Rows as records: the one place that knows the order of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.model.records import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

Row = tuple[Any, ...]

_STATUS = {int(status): status for status in Status}


def fetch(cursor: apsw.Cursor, sql: str, bindings: tuple[Any, ...] = ()) -> list[Row]:
    """All rows of a query."""
    return cursor.execute(sql, bindings).fetchall()


def fetch_value(cursor: apsw.Cursor, sql: str, bindings: tuple[Any, ...] = ()) -> Any:
    """The one value of a query that always has one."""
    return cursor.execute(sql, bindings).fetchall()[0][0]


def json_list(numbers: Iterable[int]) -> str:
    """A list of numbers as one parameter of a query."""
    return str(list(numbers))
