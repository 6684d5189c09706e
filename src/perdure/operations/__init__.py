"""What can be done with runs without executing them: create, read, cancel, resume. Serves handles, engine and tools."""

from __future__ import annotations

from perdure.operations.coding import codeless
from perdure.operations.listing import Runs
from perdure.operations.starting import Start, check_distinct
from perdure.operations.verbs import RESUMABLE, Operations, WentOn

__all__ = ["RESUMABLE", "Operations", "Runs", "Start", "WentOn", "check_distinct", "codeless"]
