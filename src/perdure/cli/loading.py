"""``MODULE:NAME`` on the command line: modules, workflows, engines and what makes tools."""

from __future__ import annotations

import json
import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import click

from perdure.engine import Engine
from perdure.errors import Undecodable
from perdure.finding import workflows_of
from perdure.steps import Step
from perdure.sync import Engine as SyncEngine
from perdure.workflow import Workflow

if TYPE_CHECKING:
    from types import ModuleType


def load_module(name: str) -> ModuleType:
    """Import a module, with the working directory on the path as ``python -m`` has it.

    Raises:
        click.UsageError: it is not there, or its own code fails; the message says which.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if name.endswith(".py") or "/" in name or "\\" in name:
        dotted = ".".join(Path(name.removesuffix(".py")).parts)
        raise click.UsageError(f"a module is named as it is imported, not by its file: write {dotted}")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(missing + "."):
            raise click.UsageError(f"there is no module {name!r} in {here} or on the path{_meant(name)}") from error
        raise click.UsageError(f"module {name!r} needs {missing!r}, which is not installed") from error
    except Exception as error:
        raise click.UsageError(
            f"module {name!r} cannot be imported: {type(error).__name__}: {error}{_place(error)}"
        ) from error


def _meant(name: str) -> str:
    """What may be meant by the name of a module that is not there."""
    package, _, last = name.rpartition(".")
    if package and (module := sys.modules.get(package)) is not None and hasattr(module, last):
        return f": write {package}:{last}"
    near = get_close_matches(name, [path.stem for path in Path.cwd().glob("*.py")], n=1)
    return f": is {near[0]} meant?" if near else ""


def _place(error: Exception) -> str:
    """Where the code of a module has failed; a SyntaxError says so by itself."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:
        return ""
    return f" ({frames[-1].filename}:{frames[-1].lineno})"


def load(target: str) -> object:
    """Return what ``MODULE:NAME`` names, or the module if there is no name.

    Raises:
        click.UsageError: it is not there.
    """
    module_name, _, path = target.partition(":")
    found: object = load_module(module_name)
    for name in path.split(".") if path else ():
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise click.UsageError(f"there is no {name!r} in {module_name}{_offer(found)}") from error
    return found


def load_workflow(target: str) -> Workflow[Any, Any]:
    """Return the workflow that ``MODULE:WORKFLOW`` names; the name may be left out where a module has only one.

    Raises:
        click.UsageError: it is not there, or something else.
    """
    found = load(target)
    if isinstance(found, Workflow):
        return found
    if ":" not in target:
        several = _own(found)
        if len(several) == 1:
            return several[0]
        if not several:
            raise _none_in(target)
        raise click.UsageError(f"say which workflow of {target}{_offer(found)}: write {target}:{several[0].qualname}")
    raise click.UsageError(f"{target} is not a workflow but {_kind(found)}")


def load_engine(targets: tuple[str, ...]) -> tuple[Engine | None, list[Workflow[Any, Any]]]:
    """Return the engine that the targets name, or else their workflows.

    Raises:
        click.UsageError: there are no workflows, or an engine beside something else.
    """
    workflows: dict[int, Workflow[Any, Any]] = {}
    for target in targets:
        found = load(target)
        if isinstance(found, SyncEngine):
            found = found._engine  # noqa: SLF001 - the engine behind the blocking one
        if isinstance(found, Engine):
            if len(targets) > 1:
                raise click.UsageError(
                    f"{target} is an engine, which says by itself what it executes: give nothing beside it"
                )
            return found, []
        if isinstance(found, Workflow):
            workflows[id(found)] = found
        elif ":" in target:
            raise click.UsageError(f"{target} is neither an engine nor a workflow but {_kind(found)}")
        else:
            several = _own(found)
            if not several:
                raise _none_in(target)
            workflows.update({id(one): one for one in several})
    return None, list(workflows.values())


def read_input(definition: Workflow[Any, Any], given: str | None) -> Any:
    """Return a workflow's input from JSON, ``@file`` or ``-`` for stdin.

    Raises:
        click.UsageError: it does not fit the workflow's type.
    """
    if not definition.takes_input:
        if given is not None:
            raise click.UsageError(f"workflow {definition.name} takes no input: leave --input out")
        return None
    if given is None:
        raise click.UsageError(f"workflow {definition.name} takes an input: give it with --input, as JSON")
    if given == "-":
        text = sys.stdin.read()
    elif given.startswith("@"):
        try:
            text = Path(given[1:]).read_text("utf-8")
        except OSError as error:
            raise click.UsageError(f"the input cannot be read from {given[1:]}: {error.strerror}") from error
    else:
        text = given
    try:
        json.loads(text)
    except ValueError as error:
        raise click.UsageError(
            f"the input is no JSON: {error}"
            + (f"; text is written in quotes: --input '\"{text}\"'" if text.isalnum() else "")
        ) from error
    try:
        return definition.input.decode(text.strip().encode())
    except Undecodable as error:
        raise click.UsageError(f"the input of {definition.name} does not fit {_short(error)}") from error


def _short(error: Undecodable) -> str:
    """Return what pydantic found, without its links."""
    lines = [line for line in error.message.splitlines() if "errors.pydantic.dev" not in line]
    return "\n".join(line.partition(" [type=")[0] for line in lines).removeprefix("stored value does not fit ")


def _none_in(module: str) -> click.UsageError:
    return click.UsageError(f"there are no workflows in {module}: they are made with @workflow")


def _kind(found: object) -> str:
    """What something is that is no workflow, and how it would be one."""
    if isinstance(found, Step):
        return "a step, which a workflow calls"
    if isinstance(found, FunctionType):
        return "a plain function: write @workflow above it"
    return type(found).__name__


def _own(module: object) -> list[Workflow[Any, Any]]:
    """Return the workflows of a module: those it defines, or, if there are none, those it imports."""
    found = workflows_of(module)
    name = getattr(module, "__name__", "")
    return [one for one in found if one.module == name] or found


def _offer(module: object) -> str:
    names = [one.qualname for one in workflows_of(module)]
    return f": it has {', '.join(names)}" if names else ""


__all__ = ["load", "load_engine", "load_module", "load_workflow", "read_input"]
