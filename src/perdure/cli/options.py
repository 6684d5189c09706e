"""Options that many commands share."""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from perdure.cli.render import Screen
from perdure.config import default_namespace
from perdure.model.ids import valid_namespace

if TYPE_CHECKING:
    from collections.abc import Callable


_NAMESPACE = "perdure.namespace"


def store_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--store`` and ``--namespace``; what the second says is found with ``namespace()``."""
    return database_option(
        click.option(
            "--namespace",
            metavar="NAME",
            default=None,
            expose_value=False,
            callback=_named,
            help="Only what is in this namespace.  [env: PERDURE_NAMESPACE]",
        )(command)
    )


def _named(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_NAMESPACE] = valid_namespace(value)


def namespace() -> str:
    """Return the namespace that the command is for."""
    named = named_namespace()
    return default_namespace() if named is None else named


def named_namespace() -> str | None:
    """Return the namespace that the command was given; None: it was given none."""
    ctx = click.get_current_context(silent=True)
    named: str | None = None if ctx is None else ctx.meta.get(_NAMESPACE)
    return named


def database_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--store``."""
    return click.option(
        "--store",
        metavar="STORE",
        envvar="PERDURE_STORE",
        default=None,
        help="The store: a file, a directory or a URL.  [env: PERDURE_STORE]",
    )(command)


def named_store(store: str | None) -> str | None:
    """Return the store as it was named after the verb of a group, or else before it."""
    ctx = click.get_current_context()
    if ctx.parent is None or ctx.get_parameter_source("store") is ParameterSource.COMMANDLINE:
        return store
    named: str | None = ctx.parent.params["store"]
    return named


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json``; the command finds it as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)


def debug_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--debug``, so that it may stand after the command too."""

    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @click.pass_context
    @functools.wraps(command)
    def wrapped(ctx: click.Context, /, *args: Any, debug: bool, **options: Any) -> Any:
        if debug:
            ctx.meta["perdure.debug"] = True
        return command(*args, **options)

    return wrapped


def screen() -> Screen:
    """Return what a command prints text on."""
    return Screen(sys.stdout, os.environ)


def print_json(data: object, *, one_line: bool = False) -> None:
    """Print data as JSON: indented, or on one line of a stream of lines."""
    text = json.dumps(data, separators=(",", ":")) if one_line else json.dumps(data, indent=2)
    click.echo(text)
