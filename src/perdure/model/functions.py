"""What can be told of a user's function when it is decorated: its colour, its name, where its context goes."""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from perdure.errors import DefinitionError
from perdure.model.hints import names_used
from perdure.model.keys import task_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_CONTEXT = re.compile(r"(?:^|\.)(StepContext|RunContext)(?:\[|$)")


def loaded_twice(one: object, other: object) -> str:
    """Return what to do about two functions that are one, of a file that is loaded under two names; "" if they are not.

    So it is with a script that another module imports, or that imports itself.

    Args:
        one: a function, or a definition that has been made of one.
        other: another.
    """
    file, name, module = _origin(one)
    if file is None or _origin(other)[:2] != (file, name) or _origin(other)[2] == module:
        return ""
    return (
        f"{file} is loaded twice, as {module} and as {_origin(other)[2]}: put workflows and steps into a module "
        "that is only imported, and start from another file"
    )


def _origin(of: object) -> tuple[str | None, str, str]:
    """The file of a function, its name there, and the name of its module."""
    function = getattr(of, "function", of)
    fn = function.fn if isinstance(function, Function) else function
    code = getattr(fn, "__code__", None)
    return getattr(code, "co_filename", None), getattr(fn, "__qualname__", ""), getattr(fn, "__module__", "")


class Decorated:
    """Base of what the decorators return, by which they know each other's work."""


@dataclass(frozen=True, slots=True)
class Function:
    """A decorated function, examined.

    Attributes:
        fn: what is called, with the owner first if ``binds``.
        target: what to ask for signature and annotations.
        name: a name made from the function's own, or None (a lambda has none).
        is_async: whether calling it makes a coroutine.
        takes_ctx: the keyword that takes the context, or None.
        in_class: whether it is written in a class body.
        binds: whether attribute access puts the instance or class first.
        parameters: its parameters, the context's left out; none if the function does not tell.
        namespace: names around its definition that its annotations speak of.
    """

    fn: Callable[..., Any]
    target: Callable[..., Any]
    name: str | None
    is_async: bool
    takes_ctx: str | None
    in_class: bool
    binds: Literal["instance", "class", "nothing"]
    parameters: tuple[inspect.Parameter, ...]
    namespace: dict[str, object]


def examine(fn: object, *, what: str, injected: object, context: str, frame: FrameType | None = None) -> Function:
    """Look at a function that is to become a step or a workflow.

    Args:
        fn: what was decorated.
        what: ``step`` or ``workflow``, for messages.
        injected: the default that marks the context's parameter.
        context: name of the context type that belongs there.
        frame: where it was decorated; annotations may name what is local there.

    Raises:
        DefinitionError: it cannot be one; the advice says why or what to write.
    """
    binds: Literal["instance", "class", "nothing"] = "instance"
    if isinstance(fn, staticmethod | classmethod):
        binds = "class" if isinstance(fn, classmethod) else "nothing"
        fn = fn.__func__
    bare = fn
    while isinstance(bare, functools.partial):
        bare = bare.func
    if isinstance(bare, Decorated):
        raise DefinitionError(f"{bare!r} is decorated already, and was to become a {what}", advice="decorate it once")
    if isinstance(fn, type) or not callable(fn) or not callable(bare):
        raise DefinitionError(
            f"a {what} is a function, not {'the class ' + fn.__name__ if isinstance(fn, type) else repr(fn)}",
            advice=f"put @{what} on a function (def or async def)",
        )
    if not inspect.isroutine(bare):
        bare = bare.__call__  # a callable instance is known by its class's method
    target: Callable[..., Any] = fn if inspect.isroutine(fn) or isinstance(fn, functools.partial) else fn.__call__
    name, in_class = _name(fn, bare)
    shown = name or "this lambda"
    _refuse_generators(bare, what, shown)
    is_async = inspect.iscoroutinefunction(bare)
    if not is_async and inspect.iscoroutinefunction(inspect.unwrap(bare)):
        raise DefinitionError(
            f"{shown} is a sync wrapper around an async function, so its colour cannot be told",
            advice="make the wrapper async def and await inside it",
        )
    try:
        parameters = tuple(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):  # some builtins do not tell
        parameters = ()
    takes_ctx = _context_parameter(parameters, what=what, shown=shown, injected=injected, context=context)
    if binds == "instance" and not inspect.isfunction(fn):
        binds = "nothing"
    return Function(
        fn=fn,
        target=target,
        name=name,
        is_async=is_async,
        takes_ctx=takes_ctx,
        in_class=in_class,
        binds=binds,
        parameters=tuple(p for p in parameters if p.name != takes_ctx),
        namespace=names_used(target, _names_around(frame)) if frame is not None else {},
    )


def _names_around(frame: FrameType) -> dict[str, object]:
    """Return what is local where a function was decorated: in class bodies, and in the function around them."""
    names: dict[str, object] = {}
    around: FrameType | None = frame
    while around is not None and around.f_locals is not around.f_globals:
        names = {**around.f_locals, **names}
        if around.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function's own frame; a class body's is not
            break
        around = around.f_back
    return names


def _name(fn: object, bare: Callable[..., Any]) -> tuple[str | None, bool]:
    """Return a name for the function, and whether it is written in a class body."""
    if not inspect.isroutine(fn) and not isinstance(fn, functools.partial):
        return task_name(type(fn).__qualname__), False
    qualname: str = getattr(bare, "__qualname__", "")
    name = task_name(qualname)
    if not qualname or "<lambda>" in name:
        return None, False
    return name, "." in name and fn is bare and inspect.isfunction(fn)


def _refuse_generators(bare: Callable[..., Any], what: str, shown: str) -> None:
    if inspect.isgeneratorfunction(bare) or inspect.isasyncgenfunction(bare):
        raise DefinitionError(
            f"{shown} is a generator, and what it yields piece by piece cannot be recorded",
            advice=f"return a list from the {what}"
            + (", or report pieces with ctx.progress(…)" if what == "step" else ""),
        )


def _context_parameter(
    parameters: tuple[inspect.Parameter, ...], *, what: str, shown: str, injected: object, context: str
) -> str | None:
    """Return the name of the parameter that takes the context, if there is one and it is right."""
    usage = f"write `*, ctx: {context} = INJECTED` (from perdure import INJECTED)"
    found: str | None = None
    for parameter in parameters:
        annotated = _CONTEXT.search(_text(parameter.annotation))
        if parameter.default is not injected:
            if annotated is not None:
                raise DefinitionError(f"parameter {parameter.name!r} of {shown} lacks its default", advice=usage)
            continue
        if found is not None:
            raise DefinitionError(f"{shown} asks for its context twice: {found!r}, {parameter.name!r}", advice=usage)
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            raise DefinitionError(
                f"parameter {parameter.name!r} of {shown} takes the context, so it must be keyword-only", advice=usage
            )
        if annotated is not None and annotated[1] != context:
            raise DefinitionError(
                f"parameter {parameter.name!r} of {shown} is a {annotated[1]}, but a {what} gets a {context}",
                advice="tools and attempts belong to steps; run_id and version of a step's run are in its StepContext"
                if what == "workflow"
                else usage,
            )
        found = parameter.name
    return found


def _text(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
