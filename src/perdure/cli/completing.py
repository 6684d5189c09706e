"""``perdure completion``: what a shell needs to complete command lines, and what it is given for ids of runs."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

from perdure.cli.exits import Exit
from perdure.errors import PerdureError

OFFERED = 30
"""Ids that are offered."""


@click.command(epilog="Example: perdure completion bash >> ~/.bashrc")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> Exit:
    """Print what makes a shell complete command lines, options and ids of runs.

    bash: add it to ~/.bashrc; zsh: to ~/.zshrc; fish: to ~/.config/fish/completions/perdure.fish.
    """
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(ctx.find_root().command, {}, "perdure", "_PERDURE_COMPLETE").source())
    return Exit.OK


def complete_run(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer ids of runs that begin so, the newest first."""
    try:
        return [CompletionItem(run_id, help=told) for run_id, told in _ids(ctx.params.get("store"), incomplete)]
    except PerdureError:  # nobody wants to be told while pressing Tab
        return []


def _ids(store: str | None, incomplete: str) -> list[tuple[str, str]]:
    from perdure.cli.opening import existing_store
    from perdure.cli.options import namespace
    from perdure.store.protocol import Filter

    where = Filter(namespace=namespace(), id_prefix=incomplete, limit=OFFERED)
    with existing_store(store) as opened:
        return [(row.run_id, f"{row.workflow}, {row.status.word}") for row in opened.list_runs(where)]


__all__ = ["complete_run", "completion"]
