from __future__ import annotations

import pytest

from perdure.testing.store_suite import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_store(case, bench):
    case(bench)


def test_every_case_has_its_own_name():
    names = [case.__name__ for case in CASES]
    assert len(set(names)) == len(names) > 60
