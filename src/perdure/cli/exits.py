"""What the exit codes of the command line mean."""

from __future__ import annotations

from enum import IntEnum

from perdure.errors import (
    CodeNotFound,
    DefinitionError,
    PerdureError,
    RunConflict,
    RunNotFound,
    ScheduleNotFound,
    StepNotFound,
    StoreError,
    UnknownWorkflow,
    WrongState,
)


class Exit(IntEnum):
    """How a command ended; the numbers are part of the command line's interface."""

    OK = 0
    NO = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    CONFLICT = 5
    NO_CODE = 6
    TROUBLE = 7
    INTERNAL = 70
    INTERRUPTED = 130
    PIPE = 141


MEANING = {
    Exit.OK: "it worked, and the answer is yes",
    Exit.NO: (
        "the answer is no: the run failed, was cancelled or is blocked, the replay departs, the check found something, "
        "damage was found"
    ),
    Exit.USAGE: (
        "the command line is wrong: an unknown option, an input that does not fit, a module that cannot be imported"
    ),
    Exit.UNREACHABLE: "the store is not there, cannot be opened, or failed",
    Exit.NOT_FOUND: "there is no run of this id or no schedule of this key, or the run has not come to this step",
    Exit.CONFLICT: "the run is there, but in a state or with an input that rules this out",
    Exit.NO_CODE: "the code of the run cannot be found, so nothing was replayed",
    Exit.TROUBLE: "`doctor` found something that is wrong now",
    Exit.INTERNAL: "a fault in Perdure itself; `--debug` shows the traceback",
    Exit.INTERRUPTED: "interrupted with Ctrl-C",
    Exit.PIPE: "whoever read the output has closed it",
}

_KINDS: tuple[tuple[type[PerdureError], Exit], ...] = (
    (StoreError, Exit.UNREACHABLE),
    (RunNotFound, Exit.NOT_FOUND),
    (StepNotFound, Exit.NOT_FOUND),
    (ScheduleNotFound, Exit.NOT_FOUND),
    (RunConflict, Exit.CONFLICT),
    (WrongState, Exit.CONFLICT),
    (CodeNotFound, Exit.NO_CODE),
    (DefinitionError, Exit.USAGE),
    (UnknownWorkflow, Exit.USAGE),
)


def exit_for(error: PerdureError) -> Exit:
    """Return the exit code that an error leads to."""
    return next((code for kind, code in _KINDS if isinstance(error, kind)), Exit.NO)
