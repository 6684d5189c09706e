"""Which runs a command is for: one by its id, or all of a kind, after a question."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import Exit
from perdure.cli.main import say
from perdure.cli.opening import operate
from perdure.cli.options import namespace, print_json
from perdure.cli.progress import Line, bar
from perdure.cli.words import count
from perdure.clock import SystemClock
from perdure.errors import DefinitionError, PerdureError
from perdure.filtering import filter_of
from perdure.model.durations import micros, to_datetime
from perdure.model.records import Status
from perdure.operations import Runs, Tally
from perdure.store.protocol import Filter

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from perdure.store.protocol import Store


_MANY = 100
"""Runs from which on it is shown at once how far that is."""

workflow_option = click.option("--workflow", metavar="NAME", help="Only runs of this workflow.")

_FILTERS = (
    click.option(
        "--status",
        multiple=True,
        type=click.Choice([status.word for status in Status]),
        help="Only runs in this status; may be given several times.",
    ),
    workflow_option,
    click.option("--version", metavar="VERSION", help="Only runs of this version of workflows."),
    click.option("--queue", metavar="NAME", help="Only runs of this queue."),
    click.option(
        "--tag",
        multiple=True,
        metavar="NAME=VALUE",
        help="Only runs with this tag; may be given several times, then they have all of them.",
    ),
    click.option("--id-prefix", metavar="TEXT", help="Only runs whose ids begin so."),
    click.option("--created-after", metavar="WHEN", help="Only runs created since: 2h (ago), or 2026-05-01T12:00Z."),
    click.option("--created-before", metavar="WHEN", help="Only runs created earlier than that."),
    click.option("--ended-after", metavar="WHEN", help="Only runs that have ended since."),
    click.option("--ended-before", metavar="WHEN", help="Only runs that ended earlier than that."),
    click.option("--error", metavar="NAME", help="Only runs stopped by it: an exception's class, or an error's code."),
)


_NAMES = (
    "status", "workflow", "version", "queue", "tag", "id_prefix", "created_after", "created_before", "ended_after",
    "ended_before", "error",
)  # fmt: skip


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what runs are chosen by; the command finds it as ``where``, a filter."""

    @wraps(command)
    def with_filter(*args: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in _NAMES}
        return command(*args, where=chosen(**given), **options)

    with_options: Callable[..., Any] = with_filter
    for option in reversed(_FILTERS):
        with_options = option(with_options)
    return with_options


def many_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what makes a command for one run one for many: what runs are chosen by, and ``--yes``."""
    return filter_options(click.option("--yes", is_flag=True, help="Do it to many runs without asking.")(command))


def chosen(*, status: tuple[str, ...], tag: tuple[str, ...], **given: Any) -> Filter:
    """Return the filter that options stand for.

    Raises:
        UsageError: a tag has no value.
        DefinitionError: an option means nothing, or can be true of no run.
    """
    pairs: dict[str, str] = {}
    for one in tag:
        name, is_one, value = one.partition("=")
        if not is_one:
            raise click.UsageError(f"--tag {one}: write --tag NAME=VALUE")
        pairs[name] = value
    now = SystemClock().now()
    for name in ("created_after", "created_before", "ended_after", "ended_before"):
        if given[name] is not None:
            given[name] = _instant(f"--{name.replace('_', '-')}", given[name], now)
    return filter_of(namespace(), status=status or None, tags=pairs or None, **given)


def _instant(option: str, text: str, now: int) -> datetime:
    """An instant as people write it: how long ago, or as in ISO 8601."""
    try:
        return to_datetime(now - micros(text))
    except DefinitionError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{option} {text}: write how long ago (90s, 2h, 7d), or 2026-05-01T12:00Z") from None


def is_one(run: str | None, where: Filter) -> bool:
    """Whether a command is for the one run that is named, and not for many.

    Raises:
        UsageError: neither is asked for, or both.
    """
    if (run is not None) == (where != Filter(namespace=namespace())):
        raise click.UsageError("name a run, or say which ones with --status, --workflow, --tag or others: see --help")
    return run is not None


def do_to_many(
    store: Store,
    where: Filter,
    among: frozenset[Status],
    verb: str,
    act: Callable[[Runs], Coroutine[Any, Any, Tally]],
    *,
    yes: bool,
    as_json: bool,
) -> Exit:
    """Do something to all runs of a kind, after a question, and tell what became of them.

    Args:
        store: where they are.
        where: which ones.
        among: only those in one of these statuses.
        verb: what is done, for people: ``cancel``.
        act: does it.
        yes: whether to ask nothing.
        as_json: whether to tell it as JSON.
    """
    statuses = tuple(sorted(among if where.status is None else among.intersection(where.status)))
    number = sum(one.number for one in store.count_runs(replace(where, status=statuses)))
    if number and not yes and not agreed(f"{verb} {count(number, 'run')}"):
        return Exit.NO
    line, so_far = Line(), Tally()

    def watch(tally: Tally) -> bool:
        nonlocal so_far
        so_far = tally
        line.show(lambda: bar(tally.done + tally.unchanged + len(tally.failures), number, "run", line))
        return True

    if number >= _MANY:  # it takes its time
        line.show(lambda: bar(0, number, "run", line), now=True)
    try:
        tally = operate(store, lambda operations: act(Runs(operations, replace(where, status=statuses), watch=watch)))
    except KeyboardInterrupt:
        line.clear()
        say(f"{verb}: interrupted after {count(so_far.done, 'run')}", "the same command does the rest")
        return Exit.INTERRUPTED
    finally:
        line.clear()
    if as_json:
        failures = {run_id: _described(error) for run_id, error in tally.failures.items()}
        print_json({"done": tally.done, "unchanged": tally.unchanged, "failures": failures})
    else:
        unchanged = f", {tally.unchanged} left as they were" if tally.unchanged else ""
        say(f"{verb}: {count(tally.done, 'run')}{unchanged}")
        for run_id, error in tally.failures.items():
            say(f"run {run_id}: {error}", getattr(error, "advice", ""))
    return Exit.NO if tally.failures else Exit.OK


def agreed(what: str) -> bool:
    """Ask whether to do something.

    Raises:
        UsageError: there is nobody to ask.
    """
    if not sys.stdin.isatty():
        raise click.UsageError(f"this would {what}: --yes does it without asking")
    return click.confirm(f"{what}?", err=True)


def _described(error: Exception) -> dict[str, str]:
    code = error.code if isinstance(error, PerdureError) else "internal"
    return {"code": code, "message": str(error)}


__all__ = ["agreed", "chosen", "do_to_many", "filter_options", "is_one", "many_options", "workflow_option"]
