"""Tags: what runs are found by besides status and workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.payloads import tags_of
from perdure.store.postgres.arrays import bigints, texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.store.postgres.session import Session


def tag(session: Session, runs: Iterable[tuple[int, bytes | None]]) -> None:
    """Note the tags of new runs, given by their keys and metas."""
    found = [(name, value, key) for key, meta in runs if meta for name, value in tags_of(meta).items()]
    if found:
        names, values, keys = zip(*found, strict=True)
        session.change("tag_runs", texts(names), texts(values), bigints(keys))
