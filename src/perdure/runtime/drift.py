"""Where the code departs from the log it replays: other arguments, or a step that has moved."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from perdure.errors import DriftError, Undecodable
from perdure.model.secrecy import concealed
from perdure.runtime.about import about
from perdure.telemetry import lines
from perdure.telemetry.logs import say

if TYPE_CHECKING:
    from perdure.model.records import Event
    from perdure.protocols import StepLike
    from perdure.runtime.calls import StepCall
    from perdure.runtime.run import Run

SHOWN = 500
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def is_misfit(error: BaseException | None) -> bool:
    """Whether code and log do not fit each other: then another build may do better, which damage is beyond."""
    return isinstance(error, (DriftError, Undecodable))


def check_arguments(run: Run, step: StepLike, key: str, event: Event, found: bytes) -> None:
    """Compare a call's arguments with those its recorded outcome was made from; a difference blocks the run."""
    recorded = event.args
    if recorded is None or recorded == found or step.arguments.same(recorded, found):
        return
    if run.accept_drift:
        return
    depart(
        run,
        DriftError(
            f"run {run.run_id}: {key} was recorded with other arguments\n"
            f"  recorded: {shown(recorded)}\n  found:    {shown(found)}",
            run_id=run.run_id,
            key=key,
            recorded=shown(recorded),
            found=shown(found),
            advice="nothing was run. Undo the change, keep the old code for old runs with patched() or version=, give "
            "the new call its own name or key, or resume with accept_drift" + unstable(run),
        ),
    )


def guard_moved(run: Run, call: StepCall) -> bool:
    """Before a body starts: whether it does not look like a recorded call that nobody has asked for."""
    if run.accept_drift:
        return True
    for event in run.replay.moved(call.key):
        if event.args is not None and call.step.arguments.same(event.args, call.prepared.data):
            return depart(
                run,
                DriftError(
                    f"run {run.run_id}: {call.key} ({call.where}) looks like the recorded {event.key}, "
                    "which nobody asks for",
                    run_id=run.run_id,
                    key=call.key,
                    recorded=event.key,
                    found=call.key,
                    advice="nothing was run. A call of this step was added, removed or moved: give repeated calls "
                    "explicit keys (step.with_options(key=…)), keep the old code for old runs with patched() or "
                    "version=, or resume with accept_drift" + unstable(run),
                ),
            )
    return True


def depart(run: Run, error: DriftError) -> bool:
    """Block the run for a departure, or go on with a warning if that is how the engine works; True if it goes on."""
    if run.host.on_drift == "warn":
        say(lines.DRIFT_PASSED, error=error, **about(run))
        return True
    run.loop.poisoned(error)
    return False


def unstable(run: Run) -> str:
    """What a departure may have to do with: another Python than the one that wrote the log."""
    python = run.recorded_python
    if python and python != THIS_PYTHON:
        return f". The log was written under Python {python}, this is {THIS_PYTHON}: a worker on {python} can go on"
    return ""


def shown(data: bytes) -> str:
    """Arguments for people, cut."""
    text = concealed(data).decode("utf-8", "backslashreplace")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
