"""Starting a run by a form that is made of what its workflow takes, where the workflow's code is here."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from perdure import describe
from perdure.errors import DefinitionError, NotSerializable, PerdureError, RunConflict, RunPurged, Undecodable
from perdure.model import ids
from perdure.model.durations import micros
from perdure.model.starting import valid_priority, valid_tags
from perdure.operations import Start
from perdure.queues import queue_name
from perdure.web.asking import Tags, Text
from perdure.web.changes import Change, Changed
from perdure.web.fields import Field, fields_of, schema_of, value_of
from perdure.web.pages import Page
from perdure.web.problems import Problem, problem_of
from perdure.web.rendering import words_now

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perdure.web.asking import Asked
    from perdure.web.changes import Order
    from perdure.web.reading import Reader
    from perdure.workflow import Workflow

INPUT: Final = "input"
"""How the names of the fields begin that make up the input."""
LONGEST: Final = 500_000
"""Characters of a field of the input."""


def start_page(reader: Reader) -> Page:
    """Make the page: which workflows can be started here, and the form of one of them."""

    def read(asked: Asked) -> dict[str, Any]:
        found = [_told(one) for _, one in sorted(reader.definitions.items())]
        return {"now": describe.instant(asked.store.now()), "workflows": found}

    def draw(_: Mapping[str, Any], query: Mapping[str, Any]) -> dict[str, Any]:
        if query["workflow"] is None:
            return {"form": None}
        return {"form": _form(_definition(reader, query["workflow"], query["version"] or ""), {}, {})}

    return Page(
        "/start",
        "listWorkflows",
        "The workflows whose code is here, so that runs of them can be started, and what they take.",
        read,
        "Workflows",
        "start.html",
        parameters=(Text("workflow", 200), Text("version", 200)),
        draw=draw,
    )


def _told(definition: Workflow[Any, Any]) -> dict[str, Any]:
    return {
        "workflow": definition.name,
        "version": definition.version,
        "queue": definition.queue,
        "takes_input": definition.takes_input,
        "schema": schema_of(definition.input) if definition.takes_input else None,
        "about": (definition.fn.__doc__ or "").strip().partition("\n")[0],
    }


def _definition(reader: Reader, name: str, version: str) -> Workflow[Any, Any]:
    """Return a workflow by name, and by version if there are several.

    Raises:
        Problem: its code is not here.
    """
    known = {one: found for (called, one), found in reader.definitions.items() if called == name}
    found = known.get(version) if version else next(iter(known.values())) if len(known) == 1 else None
    if found is None:
        said = f"of {name!r} there are versions {', '.join(sorted(known))}" if known else f"no code of {name!r} is here"
        advice = "name one of them" if known else "name its module: `perdure ui MODULE`, or give dashboard() the engine"
        raise Problem(404, "unknown_workflow", said, advice)
    return found


def _fields(definition: Workflow[Any, Any]) -> list[Field]:
    return fields_of(schema_of(definition.input), "Input") if definition.takes_input else []


def _form(definition: Workflow[Any, Any], typed: Mapping[str, str], wrong: Mapping[str, str]) -> dict[str, Any]:
    """Return what is shown of a form, with what was typed, and what is wrong beside where it is."""
    return {
        **_told(definition),
        "fields": _fields(definition),
        "typed": typed,
        "wrong": wrong,
        "new_id": typed.get("new_id") or ids.run_id(words_now(), os.urandom),
    }


def _checked(order: Order, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the options of a run, and what is wrong with them by name."""
    checks: dict[str, Callable[[Any], object]] = {
        "run_id": ids.valid_run_id,
        "delay": lambda text: (micros(text, what="delay"), text)[1],
        "queue": queue_name,
        "tags": lambda tags: valid_tags(Tags("tags").read([tags]) if isinstance(tags, str) else tags),
        "priority": lambda text: valid_priority(int(text) if isinstance(text, str) else text),
    }
    options: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for name, check in checks.items():
        if given.get(name) in (None, ""):
            continue
        try:
            options[name] = check(given[name])
        except (ValueError, DefinitionError) as error:
            wrong[name] = _words(error, order.reader) if isinstance(error, DefinitionError) else _NO[name]
    return options, wrong


_NO: Final = {"priority": "it is no whole number", "tags": "tags are NAME=VALUE, with spaces between them"}


def _words(error: PerdureError, reader: Reader) -> str:
    said = error.headline if reader.redaction else error.message
    return f"{said}: {error.advice}" if error.advice else said


def _misfits(definition: Workflow[Any, Any], data: bytes, fields: list[Field], error: Undecodable) -> dict[str, str]:
    """Return what is wrong with an input, by the field that holds it."""
    try:
        TypeAdapter(definition.input.hint).validate_json(data)
    except ValidationError as found:
        names = {one.path: one for one in fields}
        wrong: dict[str, str] = {}
        for one in found.errors(include_url=False, include_context=False, include_input=False):
            place = tuple(map(str, one["loc"]))
            at = next((place[:size] for size in range(len(place), -1, -1) if place[:size] in names), None)
            beyond = ".".join(place if at is None else place[len(at) :])
            field = None if at is None else names[at]
            # What a validator says may hold what it was given.
            told = "it does not fit" if field is not None and field.secret else one["msg"]
            said = f"{beyond}: {told}" if beyond else told
            name = _name("" if field is None else field.name)
            wrong[name] = f"{wrong[name]}; {said}" if name in wrong else said
        return wrong
    except Exception as other:  # noqa: BLE001 - validators are users' code and may raise anything
        return {INPUT: f"it is refused: {type(other).__name__}"}
    return {INPUT: error.headline}


def _name(field: str) -> str:
    return f"{INPUT}.{field}" if field else INPUT


async def _start(order: Order) -> Changed:
    given, reader = order.given, order.reader
    definition = _definition(reader, given.text("workflow"), given.text("version"))
    fields = _fields(definition)
    typed: dict[str, str] = {}
    if given.is_form:
        names = ["run_id", "delay", "queue", "tags", "priority", "new_id", *(_name(one.name) for one in fields)]
        typed = {name: given.text(name, longest=LONGEST) for name in names}
        options, wrong = _checked(order, typed)
        value, unread = value_of(fields, {one.name: typed[_name(one.name)] for one in fields})
        wrong |= {_name(name): said for name, said in unread.items()}
        options.setdefault("run_id", typed["new_id"] or None)
    else:
        unread = {}
        options, wrong = _checked(order, {name: given.value(name) for name in _OPTIONS})
        value = given.value("input")
    status = 422
    found: Any = None
    if definition.takes_input and not unread:
        data = json.dumps(value).encode()
        try:
            found = definition.input.decode(data)
        except Undecodable as error:
            wrong |= _misfits(definition, data, fields, error)
    elif value and not definition.takes_input:
        wrong[INPUT] = f"{definition.name} takes no input"
    if not wrong:
        try:
            run = order.operations.new_run(definition, found, Start(**options))
            (made,) = await order.operations.create([run], definition)
        except (RunConflict, RunPurged) as error:
            status = problem_of(error).status
            wrong["run_id"] = _words(error, reader)
        except NotSerializable as error:
            wrong[INPUT] = _words(error, reader)
        else:
            said = "started" if made.is_new else "found"
            with describe.redacting(reader.redaction):
                return Changed(said, {"run": describe.row(made.row)}, "/runs", made.row.run_id, what=made.row.run_id)
    if not given.is_form:
        name, said = next(iter(wrong.items()))
        raise Problem(status, "bad_field", f"{name}: {said}", "")
    return Changed("", {}, page=("start.html", {"workflows": [], "form": _form(definition, typed, wrong)}, status))


_TEXT: Final = {"type": "string", "maxLength": 500}
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "run_id": _TEXT,
    "delay": {"anyOf": [{"type": "string", "maxLength": 100}, {"type": "number"}]},
    "queue": _TEXT,
    "tags": {"type": "object", "additionalProperties": {"type": "string"}},
    "priority": {"type": "integer", "minimum": -1000, "maximum": 1000},
}

CHANGES: Final = (
    Change(
        "start",
        "startRun",
        "Create a run of a workflow whose code is here; the next worker that has it executes it.",
        {"workflow": _TEXT, "version": _TEXT, "input": {}, **_OPTIONS},
        ("workflow",),
        "Done",
        _start,
    ),
)

__all__ = ["CHANGES", "start_page"]
