from __future__ import annotations

from tests.engine.conftest import path

__all__ = ["path"]
