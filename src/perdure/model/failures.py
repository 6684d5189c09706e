"""Exceptions to bytes and back.

Whether an exception can be rebuilt is decided when it is written, by rebuilding it: equal in type, args, ``__dict__``
and notes. What cannot be becomes ``StepFailed``, at once and on every replay, so that handlers in a workflow see
the same both times. Part of the format.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from typing import Any

from perdure.errors import RunFailed, StepFailed, Undecodable
from perdure.model.classes import attributes, find, reference, type_name
from perdure.model.equality import same
from perdure.model.tagged import dumps
from perdure.model.untagged import loads

TEXT_LIMIT = 65_536
"""Characters of a text that are kept."""

NESTED_TEXT_LIMIT = 8192
"""The same for each exception behind the first: causes, contexts, members of groups."""

_ARGS_SHARE = 4  # times as much room for args and attributes, written down: a StepFailed holds two texts
_DEPTH_LIMIT = 8
_COUNT_LIMIT = 200
_NOTES_LIMIT = 50
_NOTE_LIMIT = 4096
_FRAMES_LIMIT = 60
_SUMMARY_LIMIT = 300
# In a coroutine or generator these mean something else than an error.
_NOT_ERRORS = (StopIteration, StopAsyncIteration)
_LINKS = ("cause", "context")
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_LIBRARY = re.compile(r"[/\\](?:(?:site|dist)-packages|lib[/\\]python\d[\d.]*)[/\\]", re.IGNORECASE)
_PERDURE = __file__.rpartition("model")[0]


@dataclass(frozen=True, slots=True)
class Failure:
    """What a run failed with, as its workflow's ``on_failure`` step is told.

    Attributes:
        type: the exception's class, with its module: "orders.Rejected".
        message: its text.
        step: key of the step (or child) whose failure came out of the workflow; None if it is the workflow's own.
        attempt: that step's last attempt.
    """

    type: str
    message: str
    step: str | None = None
    attempt: int | None = None


def encode_failure(error: BaseException, origin: bytes = b"") -> bytes:
    """Return an exception as bytes. Never raises, whatever the exception's own methods do.

    Args:
        error: the exception.
        origin: the failure that it was rebuilt from, if it was: its traceback is where the exception began.
    """
    try:
        node = _write(error, 0, set())
        if origin:
            node["traceback"] = _cut(node["traceback"] + _node(origin)["traceback"], TEXT_LIMIT)
        return dumps(node)
    except BaseException:  # noqa: BLE001 - an exception that fights back must not turn into another failure
        return dumps({"type": type_name(type(error)), "text": "<the exception cannot be read>", "traceback": ""})


def decode_failure(data: bytes) -> BaseException:
    """Return what a workflow sees of a failure: the exception rebuilt, or ``StepFailed``.

    Raises:
        Undecodable: the bytes are damaged.
    """
    try:
        return _read(_node(data))
    except (Undecodable, MemoryError):  # the latter says nothing of what is stored
        raise
    except Exception as error:
        raise _undecodable() from error


def as_run_failed(error: StepFailed, run_id: str) -> RunFailed:
    """Return what stands for a run's exception that cannot be rebuilt, with all that is known of it."""
    fields: dict[str, Any] = {**error.fields, "run_id": run_id}
    failed = RunFailed(error.message, advice=error.advice, **fields)
    failed.__cause__, failed.__context__ = error.__cause__, error.__context__
    failed.__suppress_context__ = error.__suppress_context__
    for note in getattr(error, "__notes__", ())[bool(error.advice) :]:
        failed.add_note(note)
    return failed


def failure_text(data: bytes) -> str:
    """Return a failure in one line for people: ``ValueError: no such order (caused by KeyError: '42')``.

    Raises:
        Undecodable: the bytes are damaged.
    """
    node = _node(data)
    try:
        line, cause = _line(node), node.get("cause")
        return _short(f"{line} (caused by {_line(cause)})") if isinstance(cause, dict) else line
    except Exception as error:
        raise _undecodable() from error


def place_of(data: bytes) -> str:
    """Return where a failure began in code that is no library's: ``/srv/orders.py:12 in charge``; "" if nobody knows.

    Raises:
        Undecodable: the bytes are damaged.
    """
    frames: list[tuple[str, str, str]] = _FRAME.findall(_node(data)["traceback"])
    own = [frame for frame in frames if not _LIBRARY.search(frame[0]) and not frame[0].startswith(_PERDURE)]
    if not frames:
        return ""
    file, line, name = (own or frames)[-1]
    return f"{file}:{line} in {name}"


# -- writing --------------------------------------------------------------------------------------


def _write(error: BaseException, depth: int, seen: set[int]) -> dict[str, Any]:
    """Return an exception, with those it came from, as plain data."""
    seen.add(id(error))
    limit = NESTED_TEXT_LIMIT if depth else TEXT_LIMIT
    node: dict[str, Any] = {
        "type": type_name(type(error)),
        "text": _text_of(error, limit),
        "traceback": _traceback_of(error, limit),
    }
    notes = _notes_of(error)
    if notes:
        node["notes"] = notes
    if isinstance(error, BaseExceptionGroup):
        kept = [_write(member, depth + 1, seen) for member in error.exceptions if _has_room(member, depth, seen)]
        node["members"] = kept
        node["omitted"] = len(error.exceptions) - len(kept)
    recipe = _recipe(error, node, _ARGS_SHARE * limit)
    if recipe is not None:
        node["rebuild"] = recipe
    if error.__suppress_context__:
        node["suppress"] = True
    for name, other in zip(_LINKS, (error.__cause__, error.__context__), strict=True):
        if other is not None and _has_room(other, depth, seen):
            node[name] = _write(other, depth + 1, seen)
    return node


def _has_room(error: BaseException, depth: int, seen: set[int]) -> bool:
    """Whether another exception is written along: not twice, not too deep, not too many."""
    return id(error) not in seen and depth < _DEPTH_LIMIT and len(seen) < _COUNT_LIMIT


def _recipe(error: BaseException, node: dict[str, Any], room: int) -> dict[str, Any] | None:
    """Return how an exception is rebuilt: the first way that gives an equal one in so much room, or None."""
    kind = type(error)
    ref = reference(kind)
    if ref is None or not isinstance(error, Exception) or isinstance(error, _NOT_ERRORS) or not _is_readable(error):
        return None
    for way, args in _ways(error, node):
        try:
            made = {"class": ref, "way": way, "args": dumps(args).decode(), "state": dumps(_state(error)).decode()}
            if len(made["args"]) + len(made["state"]) > room:
                return None
            if _equal(error, _rebuild(made, node)):
                return made
        except BaseException:  # noqa: BLE001, S112 - users' constructors, and values that cannot be stored
            continue
    return None


def _ways(error: Exception, node: dict[str, Any]) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the ways to try: how pickle would call the class, ``cls(*args)``, and without its ``__init__``."""
    if isinstance(error, ExceptionGroup):
        is_whole = not node.get("omitted") and all("rebuild" in member for member in node.get("members", [{}]))
        return [("group", (error.message,))] if is_whole else []
    ways = [("call", error.args), ("bare", error.args)]
    try:
        # Some keep only a part of what they were called with in args: OSError its file's name, for one.
        reduced = error.__reduce__()
        if isinstance(reduced, tuple) and reduced[0] is type(error) and reduced[1] != error.args:
            ways.insert(0, ("call", reduced[1]))
    except BaseException:  # noqa: BLE001 - users' __reduce__
        return ways
    return ways


def _state(error: BaseException) -> dict[str, Any]:
    """Return what an exception holds beside its args and notes."""
    state = attributes(error)
    state.pop("__notes__", None)
    for kind, names in _FIELDS_IN_C.items():
        if isinstance(error, kind):
            state.update({name: getattr(error, name) for name in names if getattr(error, name) is not None})
    return state


_FIELDS_IN_C: dict[type[BaseException], tuple[str, ...]] = {
    AttributeError: ("name",),
    ImportError: ("name", "path"),
    NameError: ("name",),
    OSError: ("errno", "strerror", "filename", "filename2"),
}


def _equal(error: BaseException, other: BaseException) -> bool:
    return (
        type(error) is type(other)
        and (isinstance(error, BaseExceptionGroup) or same(error.args, other.args))
        and same(_state(error), _state(other))
    )


def _text_of(error: BaseException, limit: int = TEXT_LIMIT) -> str:
    try:
        text = str.__str__(str(error))
    except BaseException as broken:  # noqa: BLE001 - users' __str__
        return f"<its text cannot be read: __str__ raised {type(broken).__name__}>"
    return _cut(text, limit)


def _is_readable(error: Exception) -> bool:
    """Whether people can be shown it: one whose ``__str__`` raises would strike whoever logs it."""
    try:
        str(error)
    except BaseException:  # noqa: BLE001 - users' __str__
        return False
    return True


def _traceback_of(error: BaseException, limit: int = TEXT_LIMIT) -> str:
    try:
        return _cut("".join(traceback.format_tb(error.__traceback__, limit=-_FRAMES_LIMIT)), limit)
    except Exception:  # noqa: BLE001 - source files and loaders are not ours
        return "<the traceback cannot be read>"


def _notes_of(error: BaseException) -> list[str]:
    notes = getattr(error, "__notes__", None)
    if not isinstance(notes, (list, tuple)):
        return []
    return [_cut(str.__str__(note), _NOTE_LIMIT) for note in notes[:_NOTES_LIMIT] if isinstance(note, str)]


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… [{len(text) - limit} characters cut]"


# -- reading --------------------------------------------------------------------------------------


def _node(data: bytes) -> dict[str, Any]:
    node = loads(data)
    if not isinstance(node, dict) or not all(isinstance(node.get(name), str) for name in ("type", "text", "traceback")):
        raise _undecodable()
    return node


def _read(node: dict[str, Any]) -> BaseException:
    error = _rebuilt(node) or _stand_in(node)
    for name in _LINKS:
        if isinstance(node.get(name), dict):
            setattr(error, f"__{name}__", _read(node[name]))
    error.__suppress_context__ = node.get("suppress") is True
    return error


def _rebuilt(node: dict[str, Any]) -> BaseException | None:
    recipe = node.get("rebuild")
    if recipe is None:
        return None
    try:
        return _rebuild(recipe, node)
    except BaseException:  # noqa: BLE001 - the class is gone, or its constructor is another one now
        return None


def _rebuild(recipe: dict[str, str], node: dict[str, Any]) -> BaseException:
    kind = find(recipe["class"])
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        raise _undecodable()
    args = loads(recipe["args"].encode())
    if recipe["way"] == "group":
        error: BaseException = kind(*args, [_read(member) for member in node["members"]])
    elif recipe["way"] == "call":
        error = kind(*args)
    else:
        error = kind.__new__(kind, *args)
        error.args = args
    if type(error) is not kind:
        raise _undecodable()
    for name, value in loads(recipe["state"].encode()).items():
        object.__setattr__(error, name, value)
    _set_notes(error, node)
    return error


def _stand_in(node: dict[str, Any]) -> StepFailed:
    error = StepFailed(
        _line(node),
        type=node["type"],
        text=node["text"],
        traceback=node["traceback"],
    )
    _set_notes(error, node)
    error.add_note("the exception itself cannot be rebuilt; where it came from is in the field traceback")
    return error


def _set_notes(error: BaseException, node: dict[str, Any]) -> None:
    error.__dict__.pop("__notes__", None)  # what its constructor added is among the recorded ones
    for note in node.get("notes", ()):
        error.add_note(note)


def _line(node: dict[str, Any]) -> str:
    kind, text = node["type"], " ".join(str(node["text"]).split())
    name = kind.rpartition(".")[2]
    line = f"{name}: {text}" if text else name
    return _short(line)


def _short(line: str) -> str:
    return line if len(line) <= _SUMMARY_LIMIT else line[: _SUMMARY_LIMIT - 1] + "…"


def _undecodable() -> Undecodable:
    return Undecodable("no failure as Perdure writes them", type="failure", advice="the stored bytes are damaged")
