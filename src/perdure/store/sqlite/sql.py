"""The named queries of this store, by name."""

from __future__ import annotations

from pathlib import Path

from perdure.store.queries import load_queries

QUERIES = load_queries(Path(__file__).parent / "queries")
