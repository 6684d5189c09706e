"""Going on as a new run: how a workflow that never ends keeps its log short."""

from __future__ import annotations

from typing import NoReturn

from perdure.context import current_run, in_step
from perdure.errors import ContinueAsNew, NotInRun


def continue_as_new(value: object = None) -> NoReturn:
    """End this run, and go on under its id with a new one of the same workflow: with an empty log and this input.

    Whoever has the id has the new run from then on: results, signals and cancels go to it, signals that were not
    consumed are moved to it, and a parent waits for it. The old one is kept as ``<id>~1``, ``<id>~2``, …

    It is a plain call, in async and in sync workflows, and never returns. Call it in the workflow's own flow, outside
    of ``saga`` blocks and task groups, with nothing left running: what still runs is cancelled.

    Args:
        value: the new run's input.

    Raises:
        NotInRun: called outside a workflow's code.
    """
    if in_step() or current_run() is None:
        raise NotInRun(
            "continue_as_new was called " + ("in a step" if in_step() else "outside a run"),
            advice="call it in a function decorated with @workflow",
        )
    raise ContinueAsNew(value)


__all__ = ["continue_as_new"]
