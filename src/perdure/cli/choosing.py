"""Which runs a command is for: one by its id, or all of a kind, after a question."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import Exit
from perdure.cli.main import say
from perdure.cli.opening import all_runs, operate
from perdure.cli.options import namespace, print_json
from perdure.cli.words import count
from perdure.errors import PerdureError
from perdure.model.records import Status
from perdure.model.starting import valid_tags
from perdure.operations import Runs
from perdure.store.protocol import Filter

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from perdure.operations import Tally
    from perdure.store.protocol import Store


def status_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--status``."""
    return click.option(
        "--status",
        multiple=True,
        type=click.Choice([status.word for status in Status]),
        help="Only runs in this status; may be given several times.",
    )(command)


def workflow_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--workflow``."""
    return click.option("--workflow", metavar="NAME", help="Only runs of this workflow.")(command)


def tag_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--tag``; the command finds it as ``tag``."""
    return click.option(
        "--tag",
        multiple=True,
        metavar="NAME=VALUE",
        help="Only runs with this tag; may be given several times, then they have all of them.",
    )(command)


def many_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what makes a command for one run one for many: ``--status``, ``--workflow``, ``--tag`` and ``--yes``.

    The command finds the first three as ``where``, a filter.
    """

    @wraps(command)
    def with_filter(
        *args: Any, status: tuple[str, ...], workflow: str | None, tag: tuple[str, ...], **options: Any
    ) -> Any:
        return command(*args, where=chosen(status, workflow, tag), **options)

    yes = click.option("--yes", is_flag=True, help="Do it to many runs without asking.")
    return status_option(workflow_option(tag_option(yes(with_filter))))


def chosen(status: tuple[str, ...], workflow: str | None, tag: tuple[str, ...]) -> Filter:
    """Return the filter that options stand for.

    Raises:
        UsageError: a tag has no value.
        DefinitionError: a tag is none.
    """
    pairs: dict[str, str] = {}
    for one in tag:
        name, is_one, value = one.partition("=")
        if not is_one:
            raise click.UsageError(f"--tag {one}: write --tag NAME=VALUE")
        pairs[name] = value
    statuses = tuple(Status[word.upper()] for word in status) or None
    return Filter(statuses, workflow, namespace(), tags=tuple(valid_tags(pairs).items()))


def is_one(run: str | None, where: Filter) -> bool:
    """Whether a command is for the one run that is named, and not for many.

    Raises:
        UsageError: neither is asked for, or both.
    """
    if (run is not None) == (where != Filter(namespace=namespace())):
        raise click.UsageError("name a run, or say which ones with --status, --workflow or --tag")
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
    number = sum(1 for _ in all_runs(store, replace(where, status=statuses, limit=500)))
    if number and not yes and not agreed(f"{verb} {count(number, 'run')}"):
        return Exit.NO
    tags = dict(where.tags)
    tally = operate(store, lambda operations: act(Runs(operations, statuses, where.workflow, tags=tags)))
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


__all__ = ["agreed", "chosen", "do_to_many", "is_one", "many_options", "status_option", "tag_option", "workflow_option"]
