from __future__ import annotations

import pytest

from perdure.store.open import open_store
from perdure.testing.store_suite import CASES, Bench


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_sqlite(case, tmp_path):
    with Bench(lambda: open_store(tmp_path / "store.db", durability="process")) as bench:
        case(bench)


def test_every_case_has_its_own_name():
    names = [case.__name__ for case in CASES]
    assert len(set(names)) == len(names) > 60
