"""What can be done with runs without executing them: create, read, cancel, resume. Serves handles, engine and tools."""

from __future__ import annotations

from perdure.operations.bulk import Tally
from perdure.operations.coding import codeless
from perdure.operations.listing import CANCELLABLE, Runs
from perdure.operations.pruning import ENDED, chosen, prune
from perdure.operations.starting import Start, check_distinct
from perdure.operations.verbs import Continued, Operations, WentOn
from perdure.store.controlling import RESUMABLE
from perdure.store.pruning import Pruned

__all__ = [
    "CANCELLABLE",
    "ENDED",
    "RESUMABLE",
    "Continued",
    "Operations",
    "Pruned",
    "Runs",
    "Start",
    "Tally",
    "WentOn",
    "check_distinct",
    "chosen",
    "codeless",
    "prune",
]
