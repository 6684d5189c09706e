"""Tags: what runs are found by besides status and workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.payloads import tags_of
from perdure.store.postgres.arrays import bigints, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perdure.store.postgres.session import Session


def tag(session: Session, runs: Iterable[tuple[int, bytes | None]], more: Mapping[str, str] | None = None) -> None:
    """Note the tags of new runs, given by their keys and metas, and ``more`` of each."""
    found = [(name, value, key) for key, meta in runs for name, value in {**tags_of(meta), **(more or {})}.items()]
    if found:
        names, values, keys = zip(*found, strict=True)
        session.change("tag_runs", texts(names), texts(values), bigints(keys))
