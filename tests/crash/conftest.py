from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.procs import Crew

pytestmark = pytest.mark.crash


@pytest.fixture
def crew(tmp_path: Path, made_store: Callable[[], str]) -> Iterator[Crew]:
    crew = Crew(tmp_path, made_store())
    yield crew
    crew.close()
