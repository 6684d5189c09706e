"""Patches: a change of a workflow's code that applies to runs which had not come so far when it was made."""

from __future__ import annotations

import sys

from perdure.context import current_run, in_step, on_run
from perdure.errors import NotInRun
from perdure.model.keys import check_explicit


def patched(name: str) -> bool:
    """Return whether this run takes the code after a change, or goes on with the code before it.

    ``if perdure.patched("new-rates"): … else: …`` keeps both. A run that comes here for the first time takes the new
    code, and that is recorded before anything after it begins. A run that may have been here before (under the old
    code, that is) goes on with the old. The answer stays the same for the whole run, in every execution, and wherever
    in it the same name is asked about.

    It is a plain call in async and in sync workflows. Outside a run (a unit test of ``workflow.fn``) it is True. When
    no run in flight is without the mark, the old code and the call can be deleted: a mark that nobody asks about is no
    drift.

    Args:
        name: what the change is called; another change needs another name.

    Raises:
        NotInRun: called in a step's body: that is executed once, under whatever code there is.
        DefinitionError: the name is empty, too long or has characters that keys reserve.
    """
    check_explicit(name)
    if in_step():
        raise NotInRun(
            f"patched({name!r}) was called in a step, whose body is never executed again once it is recorded",
            advice="just change the step; ask in the workflow if its calls or their order change",
        )
    if current_run() is None:
        return True
    code = sys._getframe(1).f_code
    return on_run(lambda run: run.patched(name, code))


__all__ = ["patched"]
