"""``perdure worker``: execute runs until asked to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import Exit
from perdure.cli.loading import load, load_engine
from perdure.cli.main import say
from perdure.cli.options import debug_option, namespace, store_option
from perdure.cli.words import count
from perdure.config import SETTINGS, default_store, setting
from perdure.engine import Engine
from perdure.store.open import store_name

if TYPE_CHECKING:
    from perdure.workflow import Workflow

SELDOM = 10_000
"""New objects after which Python's collector looks at them, at least."""


def _else(name: str) -> str:
    """What an option is where it is not given."""
    (found,) = (one for one in SETTINGS if one.name == name)
    return f"  [env: {found.variable}; default: {found.default}]"


@click.command(epilog="Example: perdure worker orders billing:invoice --concurrency 50")
@click.argument("targets", metavar="MODULE[:NAME]...", nargs=-1, required=True)
@click.option("--concurrency", type=click.IntRange(min=1), help=f"Runs in execution at once.{_else('concurrency')}")
@click.option("--lease", metavar="TIME", help=f"How long a claim holds without a heartbeat.{_else('lease')}")
@click.option("--heartbeat", metavar="TIME", help=f"How often it is renewed.{_else('heartbeat')}")
@click.option("--drain", metavar="TIME", help=f"How long steps may finish when stopping.{_else('drain')}")
@click.option("--grace", metavar="TIME", help=f"How long they may clean up after that.{_else('grace')}")
@click.option(
    "--queue",
    "queues",
    metavar="NAME",
    multiple=True,
    help="Execute runs of this queue and no other; may be repeated. The default queue is ''.",
)
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    envvar="PERDURE_METRICS",
    help="Answer Prometheus's scrapes there; without a host, on the loopback interface only.  [env: PERDURE_METRICS]",
)
@click.option("--tools", metavar="MODULE:FACTORY", help="What steps find as ctx.tools: an object, or what makes it.")
@store_option
@debug_option
def worker(  # noqa: PLR0913 - its options
    targets: tuple[str, ...],
    *,
    concurrency: int | None,
    lease: str | None,
    heartbeat: str | None,
    drain: str | None,
    grace: str | None,
    queues: tuple[str, ...],
    metrics: str | None,
    tools: str | None,
    store: str | None,
) -> Exit:
    """Execute runs until SIGTERM or Ctrl-C.

    MODULE collects the workflows of a module, MODULE:NAME names a workflow, or an engine with options of its own (then
    only --drain, --grace and --metrics count). The first signal lets steps finish; a second one stops at once. What is
    left goes on with the next worker.
    """
    engine, workflows = load_engine(targets)
    if engine is None:
        target = store or default_store()
        engine = Engine(
            target,
            workflows=workflows,
            namespace=namespace(),
            tools=None if tools is None else load(tools),
            concurrency=concurrency,
            lease=lease,
            heartbeat=heartbeat,
            only_queues=queues or None,
        )
        what = f"{_names(workflows)} from {store_name(target)}"
    else:
        what = targets[0]
    if (address := setting("metrics", metrics)) is not None:
        engine.expose(address)
    handler = _log_to_stderr()
    try:
        left = asyncio.run(engine.serve(drain, grace, ready=lambda: _started(what, engine.metrics_at)))
    finally:
        logging.getLogger("perdure").removeHandler(handler)
    if left:
        say(
            f"stopped; {count(len(left), 'run')} did not heed it: {', '.join(left)}",
            "they go on elsewhere once this process is gone",
        )
        return Exit.NO
    say("stopped; what was not finished goes on with the next worker")
    return Exit.OK


def _started(what: str, metrics_at: str | None) -> None:
    # What has been imported stays, and what a run leaves behind is mostly no garbage. Not to go over all that again and
    # again is worth some percent of what runs cost.
    gc.collect()
    gc.freeze()
    first, *rest = gc.get_threshold()
    gc.set_threshold(max(first, SELDOM), *rest)
    say(f"worker {os.getpid()} executes {what}", "Ctrl-C or SIGTERM stops it")
    if metrics_at is not None:
        say(f"its metrics are at http://{metrics_at}/metrics")


def _names(workflows: list[Workflow[Any, Any]]) -> str:
    return ", ".join(f"{one.name} (version {one.version})" if one.version != "1" else one.name for one in workflows)


def _log_to_stderr() -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("perdure: %(asctime)s %(message)s", "%H:%M:%S"))
    logging.getLogger("perdure").addHandler(handler)
    return handler
