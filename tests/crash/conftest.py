from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.procs import Crew

pytestmark = pytest.mark.crash


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.close()
