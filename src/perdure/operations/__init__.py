"""What can be done with runs without executing them: create, read, cancel, resume. Serves handles, engine and tools."""

from __future__ import annotations

from perdure.operations.bulk import Tally
from perdure.operations.coding import codeless
from perdure.operations.listing import CANCELLABLE, Runs
from perdure.operations.starting import Start, check_distinct
from perdure.operations.verbs import Continued, Operations, WentOn
from perdure.store.controlling import RESUMABLE

__all__ = [
    "CANCELLABLE",
    "RESUMABLE",
    "Continued",
    "Operations",
    "Runs",
    "Start",
    "Tally",
    "WentOn",
    "check_distinct",
    "codeless",
]
