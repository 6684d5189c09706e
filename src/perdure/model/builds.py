"""What tells one build of a program from another: a fingerprint of its workflows' code and of what that reaches.

A build that finds drift leaves the run to other builds, so what may make the difference counts: steps, helpers, models
and constants, wherever in the program they are written. Of what comes with Python or is installed only names count.
Comments, line numbers, file names and docstrings do not; the Python version does, as bytecode is its own.
"""

from __future__ import annotations

import inspect
import re
import sys
import sysconfig
import typing
from enum import Enum
from hashlib import sha256
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_MOST: Final = 5000
"""Functions and classes looked at; the workflows of a program reach far fewer."""
_WORD: Final = re.compile(r"[^\W\d]\w*")
_PLAIN: Final = (str, bytes, int, float, complex, type(None))
_FOREIGN: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
"""Where Python and what is installed lie."""


def build_of(fn: Callable[..., Any], upcast: Callable[..., Any] | None = None) -> str:
    """Return a fingerprint of a function: what its code does, wrappers included, and all that it reaches.

    Args:
        fn: a workflow's function.
        upcast: what makes its old inputs fit, if there is something.
    """
    return _hash("\n".join(_Walk(fn, upcast).texts()))


def codes_of(fn: Callable[..., Any], upcast: Callable[..., Any] | None = None) -> frozenset[CodeType]:
    """Return all code that ``build_of`` makes its fingerprint of."""
    walk = _Walk(fn, upcast)
    _ = list(walk.texts())
    return frozenset(inner for found in walk.walked for inner in _nested(getattr(found, "__code__", None)))


def build_of_all(builds: Iterable[tuple[str, str, str]]) -> str:
    """Return one build for workflows given as (name, version, build), in any order; empty for none."""
    listed = sorted(builds)
    return _hash(f"{sys.version_info[:2]} {listed}") if listed else ""


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class _Walk:
    """Goes through what a function reaches, each function and class once, in an order that is equal for equal code."""

    def __init__(self, root: Callable[..., Any], upcast: Callable[..., Any] | None) -> None:
        self._home = str(getattr(inspect.unwrap(root), "__module__", ""))
        self._ours: dict[str, bool] = {}
        self._seen: set[int] = {id(root)}
        self._found: list[Any] = [root] if upcast is None else [root, upcast]

    @property
    def walked(self) -> list[Any]:
        """The functions and classes that the texts speak of."""
        return self._found[:_MOST]

    def texts(self) -> Iterator[str]:
        """Texts that, together, are equal for equal code in every process."""
        done = 0
        while done < min(len(self._found), _MOST):
            found = self._found[done]
            done += 1
            yield from self._class(found) if isinstance(found, type) else self._function(found)

    def _function(self, fn: Any) -> Iterator[str]:
        code = getattr(fn, "__code__", None)
        if isinstance(code, CodeType):
            yield _code(code, documented=fn.__doc__)
            yield self._told((fn.__defaults__, tuple((fn.__kwdefaults__ or {}).items())))
            notes = _annotations(fn)
            yield from self._notes(notes)
            for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
                yield f"{name} = {self._told(_content(cell))}"
            yield from self._named(_names(code) | _words(notes), fn.__globals__)
        wrapped = getattr(fn, "__wrapped__", None)
        if wrapped is not None:
            yield self._told(wrapped)
        upcast = getattr(getattr(fn, "definition", None), "upcast", None)
        if upcast is not None:
            yield self._told(upcast)

    def _class(self, cls: type) -> Iterator[str]:
        members = vars(cls)
        yield f"class {cls.__qualname__}({', '.join(self._told(base) for base in cls.__bases__)})"
        notes = _annotations(cls)
        yield from self._notes(notes)
        for name, member in sorted(members.items(), key=lambda pair: str(pair[0])):
            if not name.startswith("__"):
                yield f"{name} = {self._told(getattr(member, 'fget', None) or getattr(member, '__func__', member))}"
        for name, field in (members.get("__pydantic_fields__") or {}).items():
            yield f"{name} = {self._told(getattr(field, 'default', None))}"
        module = sys.modules.get(cls.__module__)
        yield from self._named(_words(notes), {} if module is None else vars(module))

    def _notes(self, notes: Mapping[str, Any]) -> Iterator[str]:
        for name, note in notes.items():
            yield f"{name}: {self._told(note)}"

    def _named(self, names: set[str], namespace: Mapping[str, Any]) -> Iterator[str]:
        for name in sorted(names & namespace.keys()):
            value = namespace[name]
            yield f"{name} = {self._told(value)}"
            if isinstance(value, ModuleType) and self._is_ours(value.__name__):
                yield from self._named(names - {name}, vars(value))

    def _told(self, value: Any) -> str:
        """Return what a value is, in one line; functions and classes of the program are gone through later."""
        if isinstance(value, Enum):
            return f"{self._told(type(value))}.{value.name}"
        if isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, (tuple, frozenset)):
            told = [self._told(item) for item in value]
            return f"{type(value).__name__}{sorted(told) if isinstance(value, frozenset) else told}"
        if parts := typing.get_args(value):
            return f"{self._told(typing.get_origin(value))}[{', '.join(self._told(part) for part in parts)}]"
        if isinstance(value, ModuleType):
            return value.__name__
        if isinstance(value, type) or inspect.isroutine(value) or hasattr(value, "__wrapped__"):
            name = f"{value.__module__}.{getattr(value, '__qualname__', '')}"
            if id(value) not in self._seen and self._is_ours(value.__module__):
                self._seen.add(id(value))
                self._found.append(value)
            return name
        return f"a {type(value).__module__}.{type(value).__qualname__}"

    def _is_ours(self, module: object) -> bool:
        """Whether a module belongs to the program rather than to Python or to what is installed."""
        if not isinstance(module, str):
            return False
        found = self._ours.get(module)
        if found is None:
            file = getattr(sys.modules.get(module), "__file__", None) or ""
            package = module.partition(".")[0]
            if package == "perdure":
                found = module == self._home
            else:
                found = package == self._home.partition(".")[0] or (file != "" and not file.startswith(_FOREIGN))
            self._ours[module] = found
        return found


def _nested(code: object) -> Iterator[CodeType]:
    """A function's code and that of the functions in it."""
    if isinstance(code, CodeType):
        yield code
        for constant in code.co_consts:
            yield from _nested(constant)


def _annotations(of: Any) -> dict[str, Any]:
    try:
        return dict(getattr(of, "__annotations__", None) or {})
    except NameError:  # they name something that is there for type checkers only
        return {}


def _words(notes: Mapping[str, Any]) -> set[str]:
    """Names in annotations that are text."""
    return {word for note in notes.values() if isinstance(note, str) for word in _WORD.findall(note)}


def _names(code: CodeType) -> set[str]:
    """Names of globals and attributes in a function's code, inner functions included."""
    return set(code.co_names).union(*(_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _code(code: CodeType, documented: str | None = None) -> str:
    """Return a text that is equal for equal code, in every process."""
    constants = [_constant(c) for c in code.co_consts if not (documented is not None and c == documented)]
    parts = (
        code.co_name, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags,
        code.co_varnames, code.co_cellvars, code.co_freevars, code.co_names, code.co_code.hex(), constants,
    )  # fmt: skip
    return repr(parts)


def _constant(value: object) -> str:
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, frozenset):  # its order hangs on the process's hash seed
        return f"frozenset({sorted(_constant(v) for v in value)})"
    if isinstance(value, tuple):
        return f"({', '.join(_constant(v) for v in value)})"
    return repr(value)


class Definition(Protocol):
    """Something that programs define in a store, each time they start."""

    @property
    def build(self) -> str:
        """Whose it is."""
        ...

    @property
    def since(self) -> int:
        """When that one's engine was opened (µs)."""
        ...


def is_superseded(old: Definition, new: Definition) -> bool:
    """Whether a definition gives way to the one that there is.

    That is so if it comes from another build, whose engine was opened before that of the definition there is: then it
    is the older build that speaks again.
    """
    return new.build != old.build and new.since < old.since


__all__ = ["build_of", "build_of_all", "codes_of", "is_superseded"]
