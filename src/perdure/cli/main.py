"""The command ``perdure``: its commands, and how errors become messages and exit codes."""

from __future__ import annotations

import logging
import os
import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import Exit, exit_for
from perdure.config import setting
from perdure.errors import PerdureError
from perdure.model.redaction import Redaction
from perdure.shown import redacting

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "demo": "perdure.cli.demo",
    "init": "perdure.cli.beginning",
    "run": "perdure.cli.running",
    "worker": "perdure.cli.workers",
    "runs": "perdure.cli.runs",
    "show": "perdure.cli.show",
    "why": "perdure.cli.why",
    "events": "perdure.cli.events",
    "stream": "perdure.cli.streams",
    "check": "perdure.cli.checks",
    "replay": "perdure.cli.replays",
    "verify": "perdure.cli.verifies",
    "cancel": "perdure.cli.control",
    "resume": "perdure.cli.control",
    "signal": "perdure.cli.signals",
    "pause": "perdure.cli.signals",
    "fork": "perdure.cli.forks",
    "export": "perdure.cli.exports",
    "schedules": "perdure.cli.schedules",
    "queues": "perdure.cli.queues",
    "top": "perdure.cli.top",
    "tail": "perdure.cli.tailing",
    "prune": "perdure.cli.pruning",
    "namespaces": "perdure.cli.spaces",
    "config": "perdure.cli.settings",
    "keys": "perdure.cli.keys",
    "rotate-keys": "perdure.cli.keys",
    "doctor": "perdure.cli.doctor",
    "ui": "perdure.cli.ui",
    "db": "perdure.cli.databases",
    "completion": "perdure.cli.completing",
}
"""Every command, in the order of the help, and the module it is in; modules are loaded when they are needed."""


class Perdure(click.Group):
    """A group whose commands return an ``Exit``, and whose errors are one line each."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands, in the order of the help."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command's module and return the command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[cmd_name]), cmd_name.replace("-", "_"))
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command that is named, or say which one may be meant."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = get_close_matches(name, COMMANDS, n=1)
            raise click.UsageError(f"there is no command {name!r}" + (f": is {near[0]} meant?" if near else ""), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Execute the command and end with its exit code."""
        try:
            with redacting(Redaction(setting("redact") or ())):
                ctx.exit(int(super().invoke(ctx) or Exit.OK))
        except click.exceptions.Exit:
            raise
        except click.ClickException as error:
            asked = getattr(error, "ctx", None) or ctx
            say(error.format_message(), f"`{asked.command_path} --help` shows how it is written")
            ctx.exit(error.exit_code)
        except (KeyboardInterrupt, click.Abort):
            say("interrupted")
            ctx.exit(Exit.INTERRUPTED)
        except BrokenPipeError:
            ctx.exit(Exit.PIPE)
        except PerdureError as error:
            _fail(ctx, error)
            ctx.exit(exit_for(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours is told in one line too
            _fail(ctx, error)
            ctx.exit(Exit.INTERNAL)


def _version(ctx: click.Context) -> None:
    try:
        number = version("perdure")
    except PackageNotFoundError:  # run from a source tree
        number = "(not installed)"
    click.echo(f"perdure {number}")
    ctx.exit(Exit.OK)


def say(message: str, advice: str = "") -> None:
    """Write a message to stderr, in the form every message of the command line has."""
    click.echo(f"perdure: {message}", err=True)
    if advice:
        click.echo(f"         {advice}", err=True)


def _fail(ctx: click.Context, error: Exception) -> None:
    if ctx.meta.get("perdure.debug"):
        logging.getLogger("perdure.cli").error("traceback", exc_info=error)
    if isinstance(error, PerdureError):
        say(error.message or type(error).__name__, error.advice)
    else:
        say(f"internal error: {type(error).__name__}: {error}", "`perdure --debug …` shows where; please report it")


@click.group(cls=Perdure, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, given: _version(ctx) if given else None,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, envvar="PERDURE_DEBUG", help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, *, debug: bool) -> None:
    """Durable workflows: run them, look at them, replay them.

    A run is found by its id in a store: the one named by --store, else by PERDURE_STORE, else .perdure beside the
    nearest pyproject.toml.
    """
    ctx.meta["perdure.debug"] = debug


def main(argv: Sequence[str] | None = None) -> int:
    """Execute a command line and return its exit code.

    Args:
        argv: the arguments; by default those of the process.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        cli.main(args=None if argv is None else list(argv), prog_name="perdure")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else Exit.NO
    else:
        code = Exit.OK
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would try once more at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = Exit.PIPE
    return int(code)
