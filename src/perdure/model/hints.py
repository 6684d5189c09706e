"""What the annotations of a function mean, found out when first asked for.

Annotations may be text, may name classes defined further down or inside a function, or may not be resolvable at all
(imports for type checkers only). An annotation that cannot be resolved means "no type" for its parameter alone.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

UNTYPED: Final = Any
"""The hint of what has no annotation, or one that cannot be resolved."""

_WORD = re.compile(r"[^\W\d]\w*")
_WRAPPERS_LIMIT = 50


@final
class Volatile:
    """Marks parameters that may differ on replay: ``Annotated[str, volatile]``. They are never compared."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "volatile"


volatile: Final = Volatile()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function, its annotation resolved."""

    name: str
    kind: inspect._ParameterKind
    hint: Any
    default: Any
    """``inspect.Parameter.empty`` if there is none."""
    volatile: bool

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is inspect.Parameter.empty and self.kind not in _VARIADIC


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_ANYTHING = inspect.Signature(
    [
        inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ]
)


class Hints:
    """The parameters and the result of a callable; everything is worked out at first use and kept.

    Args:
        fn: a function, method, class method, static method, partial or callable object.
        injected: the default by which parameters are known that the engine fills in; they are left out.
        skip_first: leave out the first parameter, the ``self`` of a method.
        namespace: names of the scope in which ``fn`` was defined, beside what it closes over; see ``names_used``.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        injected: object = None,
        skip_first: bool = False,
        namespace: Mapping[str, object] | None = None,
    ) -> None:
        self.fn = fn
        self._injected = injected
        self._skip_first = skip_first
        self._namespace = namespace or {}

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The signature to bind calls to: without ``self`` if that is skipped, injected parameters included."""
        fn = self.fn.__func__ if isinstance(self.fn, (classmethod, staticmethod)) else self.fn
        try:
            signature = _signature(fn)
        except (TypeError, ValueError):  # some callables written in C have none
            return _ANYTHING
        if not self._skip_first:
            return signature
        parameters = list(signature.parameters.values())
        if parameters and parameters[0].kind not in _VARIADIC:
            del parameters[0]
        return signature.replace(parameters=parameters)

    @functools.cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """What a call records, in the order of the signature."""
        found: list[Parameter] = []
        for parameter in self.signature.parameters.values():
            if self._injected is not None and parameter.default is self._injected:
                continue
            hint, is_volatile = _without_volatile(self._resolve(parameter.annotation))
            found.append(Parameter(parameter.name, parameter.kind, hint, parameter.default, is_volatile))
        return tuple(found)

    @functools.cached_property
    def injected(self) -> tuple[str, ...]:
        """The names of the parameters that the engine fills in."""
        return tuple(
            name
            for name, parameter in self.signature.parameters.items()
            if self._injected is not None and parameter.default is self._injected
        )

    @functools.cached_property
    def returns(self) -> Any:
        """The hint of the result."""
        return self._resolve(self.signature.return_annotation)

    @functools.cached_property
    def volatile(self) -> frozenset[str]:
        """The names of parameters that are never compared."""
        return frozenset(parameter.name for parameter in self.parameters if parameter.volatile)

    @functools.cached_property
    def _scopes(self) -> tuple[dict[str, object], dict[str, object]]:
        """Globals and locals to resolve names in: the innermost function's, and of what wraps it."""
        functions = list(_functions(self.fn))
        if not functions:
            module = sys.modules.get(getattr(self.fn, "__module__", None) or "")
            return dict(vars(module)) if module is not None else {}, dict(self._namespace)
        inner = functions[-1]
        names: dict[str, object] = {}
        for function in functions:
            names.update(_closed_over(function))
        names.update(_class_scope(inner))
        names.update(self._namespace)
        # TypeVars of `def f[T]()` are in no scope but the function's own.
        names.update({str(var): var for var in getattr(inner, "__type_params__", ())})
        return inner.__globals__, names

    def _resolve(self, annotation: object) -> Any:
        if annotation is inspect.Parameter.empty:
            return UNTYPED
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        try:
            names, more = self._scopes
            return typing.get_type_hints(holder, names, more, include_extras=True)["it"]
        except Exception:  # noqa: BLE001 - evaluating users' annotations can raise anything
            return UNTYPED


def hint_of(fn: Callable[..., Any], name: str) -> Any:
    """Return the hint of one parameter, without the mark of volatile ones; ``UNTYPED`` if there is none."""
    return next((parameter.hint for parameter in Hints(fn).parameters if parameter.name == name), UNTYPED)


def return_hint(fn: Callable[..., Any]) -> Any:
    """Return the hint of the result; ``UNTYPED`` if there is none."""
    return Hints(fn).returns


def names_used(fn: Callable[..., Any], scope: Mapping[str, object]) -> dict[str, object]:
    """Return those names of a scope that the postponed annotations of ``fn`` speak of.

    For decorators: the locals of the caller, taken while they exist, let annotations name classes that are defined
    inside a function. Nothing else of the scope is kept alive.
    """
    words: set[str] = set()
    for function in _functions(fn):
        words.update(*(_WORD.findall(note) for note in _annotations(function).values() if isinstance(note, str)))
    return {word: scope[word] for word in words if word in scope}


def _annotations(function: types.FunctionType) -> dict[str, object]:
    if sys.version_info >= (3, 14):
        import annotationlib  # new there, where annotations are evaluated on demand: names may not be there yet

        try:
            return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)
        except Exception:  # noqa: BLE001 - evaluating users' annotations can raise anything
            return {}
    return function.__annotations__


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(fn, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(fn)


def _functions(fn: object) -> Iterator[types.FunctionType]:
    """Yield the functions behind a callable, outermost first."""
    for _ in range(_WRAPPERS_LIMIT):
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif isinstance(fn, (classmethod, staticmethod, types.MethodType)):
            fn = fn.__func__
        elif isinstance(fn, types.FunctionType):
            yield fn
            fn = getattr(fn, "__wrapped__", None)
        elif (wrapped := getattr(fn, "__wrapped__", None)) is not None:
            fn = wrapped
        elif not isinstance(fn, type) and isinstance(getattr(type(fn), "__call__", None), types.FunctionType):  # noqa: B004
            fn = type(fn).__call__
        else:
            return


def _closed_over(function: types.FunctionType) -> dict[str, object]:
    names: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return names


def _class_scope(function: types.FunctionType) -> dict[str, object]:
    """Return the names of the classes a method stands in, as far as they can be found."""
    names: dict[str, object] = {}
    space: Mapping[str, object] = function.__globals__
    for part in function.__qualname__.split(".")[:-1]:
        owner = space.get(part)
        if not isinstance(owner, type):
            break
        space = vars(owner)
        names.update(space)
    return names


def _without_volatile(hint: Any) -> tuple[Any, bool]:
    """Take the mark off a hint, so that what is left is the type alone."""
    if typing.get_origin(hint) is not Annotated:
        return hint, False
    rest = [item for item in hint.__metadata__ if not isinstance(item, Volatile)]
    if len(rest) == len(hint.__metadata__):
        return hint, False
    return (Annotated[(hint.__origin__, *rest)] if rest else hint.__origin__), True
