"""Tags: what runs are found by besides status and workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.payloads import tags_of
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw


def tag(cursor: apsw.Cursor, runs: Iterable[tuple[int, bytes | None]]) -> None:
    """Note the tags of new runs, given by their keys and metas."""
    values = [(name, value, key) for key, meta in runs if meta for name, value in tags_of(meta).items()]
    if values:
        cursor.executemany(QUERIES["tag_run"], values)
