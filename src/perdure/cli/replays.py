"""``perdure replay``: a run's code against its log, without executing anything."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure import describe
from perdure.cli.completing import complete_run
from perdure.cli.events import tell
from perdure.cli.exits import Exit
from perdure.cli.opening import existing_store, find_run, read_log
from perdure.cli.options import debug_option, json_option, print_json, screen, store_option
from perdure.cli.render import Part
from perdure.cli.telling import Teller
from perdure.cli.words import compact, count, day_and_time, status_part
from perdure.clock import SystemClock
from perdure.errors import CodeNotFound
from perdure.finding import find_code, find_in
from perdure.model import payloads
from perdure.model.histories import History, read
from perdure.model.records import Kind
from perdure.replaying import Replayed, Verdict
from perdure.replaying import replay as replay_log

if TYPE_CHECKING:
    from perdure.cli.render import Screen
    from perdure.finding import Code
    from perdure.model.records import Event
    from perdure.store.protocol import Store

_MARKS = {Verdict.SAME: Part("✓", "good"), Verdict.OPEN: Part("✓", "good"), Verdict.DEPARTS: Part("✗", "bad")}


@click.command(epilog="Example: perdure replay order-42 --app orders")
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--app", metavar="MODULE", help="Where the code is, instead of where the log says.")
@click.option(
    "--history",
    type=click.File("rb"),
    metavar="FILE",
    help="Replay a history written by `perdure export`; - reads stdin.",
)
@store_option
@json_option
@debug_option
def replay(run: str | None, *, app: str | None, history: Any, store: str | None, as_json: bool) -> Exit:
    """Run a run's code against its log, without executing any step.

    Says whether the code arrives at the recorded result, how far it agrees with the log, or where it departs (exit code
    1). The code is found by what the log says of it; if it cannot be found, the log is printed and the exit code is 6.
    """
    if (run is None) == (history is None):
        raise click.UsageError("name a run, or a file with --history")
    if history is not None:
        return _replay(_read_file(history), app, as_json=as_json)
    assert run is not None
    with existing_store(store) as opened:
        return _replay(_stored(opened, run), app, as_json=as_json)


def stored_replay(store: Store, run_id: str, *, app: str | None) -> Replayed:
    """Replay a run of a store."""
    log = _stored(store, run_id)
    return replay_log(_code(log, app), log.row, log.events, log)


class _Stored(History):
    """A history whose artifacts stay in the store until they are asked for."""

    store: Store

    def get_artifact(self, digest: bytes) -> bytes | None:
        """Read it."""
        return self.store.get_artifact(digest)


def _stored(store: Store, run_id: str) -> History:
    row = find_run(store, run_id)
    log = _Stored(row, read_log(store, row), {})
    log.store = store
    return log


def _read_file(file: Any) -> History:
    try:
        return read(json.load(file))
    except ValueError as error:
        raise click.BadParameter(f"this is no JSON: {error}", param_hint="--history") from error


def _code(log: History, app: str | None) -> Code:
    sys.path.insert(0, str(Path.cwd()))
    if app is None:
        return find_code(log.row, log.events[0])
    try:
        module = import_module(app)
    except ImportError as error:
        raise click.BadParameter(f"{app} cannot be imported: {error}", param_hint="--app") from error
    return find_in(module, log.row, log.events[0])


def _replay(log: History, app: str | None, *, as_json: bool) -> Exit:
    try:
        code = _code(log, app)
    except CodeNotFound:
        if as_json:
            print_json(
                {"run_id": log.row.run_id, "verdict": None, "events": [describe.event(one) for one in log.events]}
            )
        else:
            tell(screen(), Teller(SystemClock().now()), log.events)
        raise
    replayed = replay_log(code, log.row, log.events, log)
    if as_json:
        print_json(described(replayed))
    else:
        show_replay(screen(), replayed)
    return Exit.NO if replayed.verdict is Verdict.DEPARTS else Exit.OK


def described(found: Replayed) -> dict[str, Any]:
    """Return a replay's finding as plain data."""
    definition = found.code.definition
    return {
        "run_id": found.run_id,
        "workflow": found.workflow,
        "status": found.status.word,
        "verdict": found.verdict.value,
        "seq": found.seq,
        "events": found.events,
        "replayed": found.outcomes,
        "reason": found.reason,
        "advice": found.advice,
        "next": [{"what": one.what, "at": describe.instant(one.at)} for one in found.following],
        "unasked": found.unasked,
        "code": {"module": definition.module, "qualname": definition.qualname, "file": found.code.file},
    }


def _end(event: Event | None) -> str:
    """Return what a run ended with: its result or its failure."""
    if event is None:
        return ""
    if event.kind == Kind.RUN_COMPLETED:
        return compact(describe.value(event.payload, event.codec))
    failure = describe.failure(payloads.failure_of(event.payload))
    return "" if failure is None else str(failure["line"])


def show_replay(out: Screen, found: Replayed, *, indent: int = 0) -> None:
    """Print a replay's finding."""
    out.line(Part(found.run_id, "strong"), "  ", found.workflow, "  ", status_part(found.status), indent=indent)
    inner = indent + 2
    out.fields(
        [
            ("log", f"{count(found.events, 'event')}, {count(found.outcomes, 'outcome')} replayed, nothing executed"),
            ("code", f"{found.code.definition.qualname} in {found.code.file}"),
        ],
        indent=inner,
    )
    mark = _MARKS[found.verdict]
    if found.verdict is Verdict.SAME:
        shown = _end(found.result)
        out.line(mark, " ", Part(found.reason, "good"), *([": ", shown] if shown else []), indent=inner)
    elif found.verdict is Verdict.OPEN:
        out.line(mark, " ", Part(found.reason, "good"), f" (seq {found.seq})", indent=inner)
        for one in found.following:
            until = "" if one.at is None else f" until {day_and_time(one.at)}"
            out.line("then it ", one.what, until, indent=inner + 2)
    else:
        first, *rest = found.reason.splitlines()
        out.line(mark, " ", Part(f"departs at seq {found.seq}", "bad"), indent=inner)
        out.text(first, indent=inner + 2)
        for line in rest:
            out.line(line, indent=inner + 2)
        if found.advice:
            out.text(found.advice, style="dim", indent=inner + 2)
    if found.unasked:
        out.line(Part(f"recorded, and no longer asked for: {', '.join(found.unasked)}", "warn"), indent=inner + 2)
