"""The end of a run that goes on as a new one, under its own id."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perdure.model import ids, payloads
from perdure.model.records import Kind, NewRun, Status, Successor
from perdure.runtime.ending import Ending

if TYPE_CHECKING:
    from perdure.runtime.run import Run


def continued(run: Run, value: object) -> Ending:
    """Return the ending of a run whose code wants to continue as a new one with this input.

    Raises:
        NotSerializable: the input cannot be stored exactly.
    """
    row, definition = run.row, run.definition
    codec, stored, artifact = payloads.pack(definition.encode_input(value))
    now = run.host.clock.now()
    renamed = f"{run.run_id}~{run.code.generation}"
    new = NewRun(
        run_id=run.run_id,
        uid=ids.new_uid(os.urandom),
        workflow=row.workflow,
        version=row.version,
        queue=row.queue,
        namespace=row.namespace,
        created_at=now,
        codec=codec,
        payload=stored,
        origin=payloads.origin(
            run.run_id, definition.origin, None, generation=run.code.generation + 1, depth=run.code.depth
        ),
        priority=row.priority,
        partition=row.partition,
        meta=row.meta,
        artifacts=() if artifact is None else (artifact,),
    )
    payload = payloads.note(renamed=renamed)
    return Ending(Kind.RUN_CONTINUED, Status.COMPLETED, payload, successor=Successor(new, renamed))


__all__ = ["continued"]
