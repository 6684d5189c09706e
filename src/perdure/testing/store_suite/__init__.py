"""What every store must do: cases that any store can be put through, with pytest or without.

A case is a function that takes a ``Bench`` and raises ``AssertionError`` if the store breaks the law in its name::

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
    def test_store(case, tmp_path):
        with Bench(lambda: open_store(tmp_path / "store.db")) as bench:
            case(bench)

The factory is called more than once by some cases: every call gives another handle to the same store, as another
process would have it.
"""

from __future__ import annotations

from perdure.testing.store_suite import (
    cancelling,
    children,
    claiming,
    committing,
    concurrency,
    controlling,
    creating,
    forking,
    keys,
    listing,
    messaging,
    purging,
    queueing,
    reading,
    reclaiming,
    refusing,
    scheduling,
    standing,
    tagging,
    undoing,
    workers,
)
from perdure.testing.store_suite.bench import CASES, Bench, Case, Holder

__all__ = [
    "CASES",
    "Bench",
    "Case",
    "Holder",
    "cancelling",
    "children",
    "claiming",
    "committing",
    "concurrency",
    "controlling",
    "creating",
    "forking",
    "keys",
    "listing",
    "messaging",
    "purging",
    "queueing",
    "reading",
    "reclaiming",
    "refusing",
    "scheduling",
    "standing",
    "tagging",
    "undoing",
    "workers",
]
