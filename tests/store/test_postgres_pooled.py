"""The whole suite behind a pooler that lends every transaction another session, and knows no prepared statements."""

from __future__ import annotations

import pytest

from perdure.store.open import open_store
from perdure.testing.store_suite import CASES, Bench
from tests.servers.made import Made

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def pooled(ground):
    with ground.own() as own:
        made = Made(ground, own.bouncer(ground.shared(), pool=4).port)
        yield made
        made.close()


@pytest.fixture
def url(pooled):
    yield pooled.take()
    pooled.end_of_test()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_store(case, url):
    with Bench(lambda: open_store(url, durability="process")) as bench:
        assert bench.store._writer._pooled
        case(bench)
