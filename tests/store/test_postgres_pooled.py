"""The whole suite behind a pooler that lends every transaction another session, and knows no prepared statements."""

from __future__ import annotations

import os

import pytest

from perdure.store.open import open_store
from perdure.testing.store_suite import CASES, Bench
from tests.servers.ground import Own

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture(scope="module")
def bouncer(ground):
    with ground.own() as own:
        assert isinstance(own, Own)
        yield own.bouncer(own.server(), pool=4)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_store(case, bouncer):
    url = bouncer.url(f"test_{os.urandom(5).hex()}")
    with Bench(lambda: open_store(url, durability="process")) as bench:
        assert bench.store._writer._pooled
        case(bench)
