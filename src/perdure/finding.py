"""Finding workflows: by what a run's log says of its code, or by the name of a module."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.errors import CodeNotFound
from perdure.model import payloads
from perdure.workflow import Workflow

if TYPE_CHECKING:
    from types import ModuleType

    from perdure.model.records import Event, RunRow

MAIN = "__main__"
ALIAS = "__perdure_main__"
"""Name under which a script that was run as ``__main__`` is loaded, so that its ``if __name__ == …`` does not run."""


@dataclass(frozen=True, slots=True)
class Code:
    """A workflow that was found, and the file it is in."""

    definition: Workflow[Any, Any]
    file: str


def find_code(row: RunRow, created: Event) -> Code:
    """Return the code of a run, from where its log says that it was: its module, or the file that was run as a script.

    Args:
        row: the run.
        created: its first event.

    Raises:
        CodeNotFound: it is not there, cannot be loaded, or has no such workflow any more.
    """
    said = payloads.fields(created.args)
    module, file = said.get("module") or "", said.get("file") or ""
    where = {"run_id": row.run_id, "module": module, "qualname": said.get("qualname"), "file": file}
    try:
        loaded = load_script(Path(file)) if module == MAIN else _import(module, file)
    except Exception as error:
        raise CodeNotFound(
            f"the code of run {row.run_id!r} cannot be loaded from {file or module}: {type(error).__name__}: {error}",
            advice="say where it is with --app MODULE",
            **where,
        ) from error
    return _choose(workflows_of(loaded), row, file, where)


def find_in(module: ModuleType, row: RunRow, created: Event) -> Code:
    """Return the code of a run from a module that was named; it answers for the one that the log names.

    Raises:
        CodeNotFound: it has no such workflow.
    """
    file = getattr(module, "__file__", None) or module.__name__
    recorded = payloads.fields(created.args).get("module")
    if recorded == MAIN or recorded not in sys.modules:
        sys.modules[str(recorded)] = module
    return _choose(workflows_of(module), row, file, {"run_id": row.run_id, "module": module.__name__, "file": file})


def _choose(found: list[Workflow[Any, Any]], row: RunRow, file: str, where: dict[str, Any]) -> Code:
    for one in found:
        if one.name == row.workflow and one.version == row.version:
            return Code(one, one.source_file)
    versions = sorted(one.version for one in found if one.name == row.workflow)
    if versions:
        raise CodeNotFound(
            f"run {row.run_id!r} is pinned to version {row.version!r} of {row.workflow}, and {file} has "
            f"version {', '.join(map(repr, versions))}",
            advice="keep the old version beside the new one while runs of it are in flight",
            **where,
        )
    raise CodeNotFound(
        f"there is no workflow {row.workflow!r} in {file}",
        advice="say where it is with --app MODULE",
        **where,
    )


def loaded_code(row: RunRow, created: Event) -> Workflow[Any, Any] | None:
    """Return the code of a run if the module that its log names is loaded in this process and has it; loads nothing."""
    module = sys.modules.get(payloads.fields(created.args).get("module") or "")
    wanted = row.workflow, row.version
    return next((one for one in workflows_of(module) if (one.name, one.version) == wanted), None)


def workflows_of(module: object) -> list[Workflow[Any, Any]]:
    """Return all workflows that a module (or a class) has at its top level, also those that it imports."""
    names = getattr(module, "__dict__", {})
    found = {id(one): one for one in names.values() if isinstance(one, Workflow)}
    return list(found.values())


def _import(name: str, file: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        path = Path(file)
        if not path.is_file():
            raise
    # The directory from which the module was importable: as many levels up as its name has parts.
    levels = name.count(".") + (path.name == "__init__.py")
    sys.path.insert(0, str(path.parents[levels]))
    importlib.invalidate_caches()
    return importlib.import_module(name)


def load_script(path: Path) -> ModuleType:
    """Load a file that was run as a script, as ``multiprocessing`` does: its classes answer for those of ``__main__``.

    Raises:
        FileNotFoundError: it is not there.
        Exception: whatever its code raises.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there")
    spec = importlib.util.spec_from_file_location(ALIAS, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python source file")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    sys.modules[ALIAS] = module
    # Stored classes and exceptions are found by the module they were written in.
    sys.modules[MAIN] = module
    spec.loader.exec_module(module)
    return module


__all__ = ["Code", "find_code", "find_in", "load_script", "loaded_code", "workflows_of"]
