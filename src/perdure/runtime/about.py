"""What log lines and spans say a run or an attempt is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from perdure.runtime.bodies import Body
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


def about_attempt(body: Body) -> dict[str, Any]:
    """Return what a line about an attempt carries."""
    return {**about(body.run), "step": body.call.step.name, "attempt": body.attempt}


__all__ = ["about", "about_attempt"]
