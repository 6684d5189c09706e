"""Replay: does a run's code, as it is now, arrive where the log says? Nothing is executed and nothing is written."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.errors import DriftError, IntegrityError, PerdureError, Undecodable
from perdure.model import equality, payloads
from perdure.model.coding import NONE
from perdure.model.history import fold
from perdure.model.records import Kind, Status
from perdure.model.secrecy import concealed
from perdure.runtime.rehearsal import Rehearsed, rehearse
from perdure.store.coded import codecs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.finding import Code
    from perdure.model.history import RunView
    from perdure.model.records import Event, RunRow
    from perdure.store.protocol import Artifacts

_ENDS = {Status.COMPLETED: Kind.RUN_COMPLETED, Status.FAILED: Kind.RUN_FAILED, Status.CANCELLED: Kind.RUN_CANCELLED}
_SAME = {
    Status.COMPLETED: "the code arrives at the recorded result",
    Status.FAILED: "the code fails as recorded",
    Status.CANCELLED: "the code is cancelled as recorded",
}
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class Verdict(Enum):
    """What a replay found."""

    SAME = "same"
    """The code arrives at the recorded end."""
    OPEN = "open"
    """The code agrees with all that is recorded, and the run has not ended."""
    DEPARTS = "departs"
    """The code does something else than what is recorded."""


class Next(NamedTuple):
    """Something the run would do next: what, and when (µs) if that is fixed."""

    what: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay's finding.

    Attributes:
        run_id, workflow: the run.
        status: the run's status as recorded.
        verdict: see there.
        seq: the event up to which the code agrees, or at which it departs.
        events: how many the log has.
        outcomes: how many outcomes of steps and timers were delivered.
        reason: why, in one sentence.
        advice: what to do about it.
        following: what the run would do or wait for next.
        unasked: keys of recorded steps that the code no longer asks for.
        result: the last event of the log, if it is an end.
        code: where the code was found.
    """

    run_id: str
    workflow: str
    status: Status
    verdict: Verdict
    seq: int
    events: int
    outcomes: int
    reason: str
    code: Code
    advice: str = ""
    following: list[Next] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    result: Event | None = None


def replay(code: Code, row: RunRow, events: Sequence[Event], artifacts: Artifacts) -> Replayed:
    """Run a run's code against its log, without executing a step or writing anything.

    Args:
        code: the workflow.
        row: the run.
        events: its whole log.
        artifacts: where payloads over 64 KiB are found.

    Raises:
        IntegrityError: the log is not what was written.
    """
    return asyncio.run(replay_here(code, row, events, artifacts))


async def replay_here(code: Code, row: RunRow, events: Sequence[Event], artifacts: Artifacts) -> Replayed:
    """Do what ``replay`` does, on the loop that is there."""
    seen = await rehearse(code.definition, row, events, artifacts)
    if isinstance(seen.error, IntegrityError):
        raise seen.error
    return _Judge(code, row, events, seen, artifacts).judge()


class _Judge:
    """Compares what the code did with what the log says."""

    def __init__(self, code: Code, row: RunRow, events: Sequence[Event], seen: Rehearsed, artifacts: Artifacts) -> None:
        self.code, self.row, self.events, self.seen, self.artifacts = code, row, events, seen, artifacts
        self.view: RunView = fold(events)
        self.last = events[-1]
        self.end = next((e for e in reversed(events) if e.kind == _ENDS.get(self.view.status)), None)
        self.was_told = any(event.kind == Kind.CANCEL_DELIVERED for event in events)

    def judge(self) -> Replayed:
        error, ending, status = self.seen.error, self.seen.ending, self.view.status
        if isinstance(error, (DriftError, Undecodable)):
            return self._drift(error)
        from_outside = status is Status.CANCELLED and not self.was_told
        if self.end is None or from_outside:
            return self._open(from_outside=from_outside)
        if ending is None:
            goes_on = ", it ".join(following.what for following in self._following())
            return self._found(
                Verdict.DEPARTS,
                self.last.seq,
                f"the log ends with {Kind(self.end.kind).word}, but the code goes on: it {goes_on}",
                advice="a step was added before the end; use patched() or version=, so that old runs keep their code",
            )
        extra = [event for event in self.seen.written if event is not ending]
        difference = self._difference(self.end, ending) or (
            f"the code would also write {Kind(extra[0].kind).word} {extra[0].key or ''}".rstrip() if extra else ""
        )
        if difference:
            return self._found(Verdict.DEPARTS, self.end.seq, difference)
        return self._found(Verdict.SAME, self.last.seq, _SAME[status])

    def _drift(self, error: PerdureError) -> Replayed:
        key = error.fields.get("recorded" if error.fields.get("found") == error.fields.get("key") else "key")
        at = next((event.seq for event in reversed(self.events) if event.key == key), self.last.seq)
        return self._found(Verdict.DEPARTS, at, error.message, advice=error.advice)

    def _open(self, *, from_outside: bool) -> Replayed:
        waits = from_outside and "it was cancelled from outside while the code had this to do"
        return self._found(
            Verdict.OPEN,
            self.last.seq,
            f"the code agrees with the log up to its last event{'; ' + waits if waits else ''}",
        )

    def _found(self, verdict: Verdict, seq: int, reason: str, *, advice: str = "") -> Replayed:
        unasked = [event.key for event in self.seen.unasked if event.key is not None]
        return Replayed(
            self.row.run_id,
            self.row.workflow,
            self.view.status,
            verdict,
            seq,
            len(self.events),
            self.seen.delivered,
            reason,
            self.code,
            advice,
            self._following() if verdict is Verdict.OPEN else [],
            unasked,
            self.end,
        )

    def _following(self) -> list[Next]:
        seen = self.seen
        if seen.ending is not None:
            kind = Kind(seen.ending.kind).word.removeprefix("run_")
            why = payloads.failure_of(seen.ending.payload) if seen.ending.kind == Kind.RUN_FAILED else None
            return [Next(f"ends as {kind}" + (f" ({_failure(why)})" if why else ""))]
        found = [
            Next(f"runs {key}" + (f", attempt {attempt}" if attempt > 1 else "")) for key, attempt, _ in seen.starts
        ]
        found += [Next(f"waits for attempt {attempt} of {key}", at) for key, attempt, at in seen.retries]
        found += [Next(f"waits for {key}", at) for key, at in seen.timers]
        known = {key for key, *_ in (*seen.starts, *seen.retries, *seen.timers)}
        return found + [Next(f"waits for {key}") for key in seen.waits if key not in known]

    def _difference(self, recorded: Event, found: Event) -> str:
        """Return in which way two ends differ; empty if they do not."""
        if recorded.kind != found.kind:
            why = payloads.failure_of(found.payload)
            now = f"{found.word.removeprefix('run_')}" + (f" with {_failure(why)}" if why else "")
            return f"the log ends as {recorded.word.removeprefix('run_')}, the code now ends as {now}"
        if recorded.kind == Kind.RUN_COMPLETED:
            return self._other_result(recorded, found)
        before, now_ = (payloads.failure_of(event.payload) for event in (recorded, found))
        if before is None or now_ is None:
            return (
                ""
                if before is now_
                else "the code now fails while it cleans up"
                if now_
                else "its clean-up no longer fails"
            )
        steps = [payloads.fields(event.payload).get("steps", []) for event in (recorded, found)]
        if _kind_and_text(before) != _kind_and_text(now_) or steps[0] != steps[1]:
            return f"it failed with {_failure(before)}, the code now fails with {_failure(now_)}"
        return ""

    def _other_result(self, recorded: Event, found: Event) -> str:
        before = codecs_of(self.artifacts).unpack(recorded, self.artifacts.get_artifact)
        now = NONE.unpack(found, self.seen.artifacts.get)
        if before == now:
            return ""
        output = self.code.definition.output
        try:
            values: list[Any] = [output.decode(before), output.decode(now)]
        except Undecodable as error:
            return f"the recorded result does not decode as the workflow's type today: {error}"
        if equality.same(*values):
            return ""
        return f"another result\n  recorded: {_shown(before)}\n  found:    {_shown(now)}"


def _kind_and_text(failure: bytes) -> tuple[str, str]:
    node = payloads.fields(failure)
    kind = str(node.get("type")).replace("__perdure_main__.", "__main__.")
    # Our own messages name lines of code, which move.
    return kind, "" if kind.startswith("perdure.") else _ADDRESS.sub("0x…", str(node.get("text")))


def _failure(failure: bytes) -> str:
    kind, text = payloads.fields(failure).get("type", ""), payloads.fields(failure).get("text", "")
    return f"{str(kind).rpartition('.')[2]}: {' '.join(str(text).split())}"[:200]


def _shown(data: bytes) -> str:
    text = concealed(data).decode("utf-8", "backslashreplace")
    return text if len(text) <= 300 else f"{text[:300]}…"  # noqa: PLR2004 - as much as people read


__all__ = ["Next", "Replayed", "Verdict", "replay", "replay_here"]
