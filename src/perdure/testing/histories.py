"""Histories of real runs against the code of today, as an assertion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.context import refuse_on_loop
from perdure.errors import IntegrityError, PerdureError
from perdure.finding import Code, find_code
from perdure.model.histories import read
from perdure.replaying import Verdict, replay

if TYPE_CHECKING:
    from perdure.replaying import Replayed
    from perdure.workflow import Workflow


class HistoryDeparts(PerdureError, AssertionError):
    """A workflow's code does something else than a run's history says; fields: run_id, workflow, seq, replayed."""

    code = "history_departs"

    @property
    def replayed(self) -> Replayed:
        """What was found."""
        found: Replayed = self.fields["replayed"]  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
        return found


def replay_history(path: str | Path, workflow: Workflow[Any, Any] | None = None) -> Replayed:
    """Run a workflow's code against the history of a run, without executing a step, as ``perdure replay`` does.

    Keep histories of runs as they are in production (``perdure export RUN > tests/histories/order-42.json``), and this
    tells whether a change of the code would strand runs like them.

    Args:
        path: what ``perdure export`` wrote.
        workflow: the code; by default it is looked for where the history says that it was.

    Returns:
        What was found: the code arrives at the recorded end, or agrees with what is recorded so far.

    Raises:
        HistoryDeparts: it does something else; an ``AssertionError``.
        CodeNotFound: there is no such workflow any more.
        IntegrityError: the file is no history, or was changed.
        ColourError: called where an event loop runs.
    """
    refuse_on_loop("replay_history would block the event loop it is called in", advice="call it in a plain def test")
    try:
        log = read(json.loads(Path(path).read_text("utf-8")))
    except ValueError as error:
        raise IntegrityError(f"{path} is no history: {error}", advice="export it anew: perdure export RUN") from error
    code = find_code(log.row, log.events[0]) if workflow is None else Code(workflow, workflow.source_file)
    found = replay(code, log.row, log.events, log)
    if found.verdict is Verdict.DEPARTS:
        raise HistoryDeparts(
            f"{found.workflow} departs from the history of run {found.run_id!r} at seq {found.seq}: {found.reason}",
            advice=found.advice or "patched() and version= let old runs keep their code",
            run_id=found.run_id,
            workflow=found.workflow,
            seq=found.seq,
            replayed=found,
        )
    return found


__all__ = ["HistoryDeparts", "replay_history"]
