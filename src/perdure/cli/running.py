"""``perdure run``: run a workflow here and now, or go on with it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

import click

from perdure import describe
from perdure.cli.exits import Exit
from perdure.cli.loading import load, load_workflow, read_input
from perdure.cli.main import say
from perdure.cli.options import debug_option, json_option, namespace, print_json, store_option
from perdure.cli.progress import steps_shown
from perdure.clock import SystemClock
from perdure.errors import DefinitionError, NotSerializable, PerdureError, RunConflict, StoreError
from perdure.here import Here
from perdure.model import ids
from perdure.model.failures import encode_failure

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from perdure.workflow import Workflow


@click.command(epilog='Example: perdure run orders:fulfil --input \'{"id": "42", "amount": 5000}\' --run-id order-42')
@click.argument("workflow", metavar="MODULE:WORKFLOW")
@click.option("--input", "given", metavar="JSON", help="The input: JSON, @FILE, or - for stdin.")
@click.option(
    "--run-id", metavar="ID", help="A stable id: the same command goes on with the run.  [default: a new one]"
)
@click.option("--tools", metavar="MODULE:FACTORY", help="What steps find as ctx.tools: an object, or what makes it.")
@store_option
@json_option
@debug_option
def run(
    workflow: str, *, given: str | None, run_id: str | None, tools: str | None, store: str | None, as_json: bool
) -> Exit:
    """Run a workflow here and now and print its result.

    The same command with the same --run-id resumes it after a crash: finished steps are not run again. A run that
    failed goes on from what failed.
    """
    definition = load_workflow(workflow)
    value = read_input(definition, given)
    made = None if tools is None else load(tools)
    run_id = ids.run_id(SystemClock().now(), os.urandom) if run_id is None else run_id
    try:
        with steps_shown(run_id) as hooks:
            here = Here(definition, run_id, store or None, namespace=namespace(), tools=made, hooks=hooks)
            result = asyncio.run(_interruptible(here.result(value, retry_failed=True, announced=False), run_id))
    except asyncio.CancelledError:
        return Exit.INTERRUPTED
    except (RunConflict, DefinitionError, NotSerializable, StoreError):
        raise
    except PerdureError as error:
        _tell_failure(error, run_id, as_json=as_json)
        raise
    except Exception as error:  # noqa: BLE001 - the workflow's own
        _tell_failure(error, run_id, as_json=as_json)
        say(f"{type(error).__name__}: {error}", " ".join(getattr(error, "__notes__", ())))
        if click.get_current_context().meta.get("perdure.debug"):
            traceback.print_exception(error)
        return Exit.NO
    _print_result(definition, result, run_id, as_json=as_json)
    return Exit.OK


def _print_result(definition: Workflow[Any, Any], result: object, run_id: str, *, as_json: bool) -> None:
    stored = describe.value(definition.output.encode(result))
    if as_json:
        print_json({"run_id": run_id, "status": "completed", "result": stored, "failure": None})
    elif isinstance(result, str) and isinstance(stored, str):
        click.echo(stored)
    elif result is not None:
        print_json(stored)


def _tell_failure(error: Exception, run_id: str, *, as_json: bool) -> None:
    if as_json:
        code = error.code if isinstance(error, PerdureError) else "run_failed"
        print_json(
            {"run_id": run_id, "status": code, "result": None, "failure": describe.failure(encode_failure(error))}
        )


async def _interruptible(work: Coroutine[Any, Any, Any], run_id: str) -> Any:
    """Await something; the first Ctrl-C lets steps in flight finish, the second ends the process."""
    task = asyncio.ensure_future(work)
    again = f"the same command with --run-id {run_id} goes on"

    def interrupt() -> None:
        if task.cancelling():
            say("interrupted again: ended at once", again)
            sys.stdout.flush()
            os._exit(Exit.INTERRUPTED)
        say("interrupted: letting the steps in flight finish (Ctrl-C again to end at once)", again)
        task.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        return await task
    finally:
        loop.remove_signal_handler(signal.SIGINT)
