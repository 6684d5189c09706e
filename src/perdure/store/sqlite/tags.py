"""Tags: what runs are found by besides status and workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.payloads import tags_of
from perdure.store.sqlite.sql import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import apsw


def tag(cursor: apsw.Cursor, runs: Iterable[tuple[int, bytes | None]], more: Mapping[str, str] | None = None) -> None:
    """Note the tags of new runs, given by their keys and metas, and ``more`` of each."""
    values = [(name, value, key) for key, meta in runs for name, value in {**tags_of(meta), **(more or {})}.items()]
    if values:
        cursor.executemany(QUERIES["tag_run"], values)
