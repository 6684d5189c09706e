"""What log lines and spans say of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.runtime.run import Run


def about(run: Run) -> dict[str, Any]:
    """Return what a line about a run carries."""
    row = run.row
    return {
        "run_id": run.run_id,
        "workflow": run.workflow,
        "namespace": row.namespace,
        "queue": row.queue,
        "worker": run.host.worker,
    }


__all__ = ["about"]
