"""Fakes: what stands in for the body of a step in a test. The step stays what it is in all else."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from perdure.context import INJECTED
from perdure.errors import DefinitionError
from perdure.model.functions import Decorated
from perdure.steps import Step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from inspect import BoundArguments

R = TypeVar("R")

Fake: TypeAlias = "Callable[..., R | Awaitable[R]] | R | BaseException | type[BaseException]"
"""What can stand in for the body of a step with a result of type ``R``."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_REAL = "real"
"""Where a step whose body is a fake keeps the step that it is."""


class Override:
    """A fake in the place of a step's body, until it is undone; a context manager that undoes it.

    Attributes:
        step: the step.
    """

    def __init__(self, step: Step[..., Any], fake: object, overrides: list[Override]) -> None:
        """Put the fake in its place; of several for one step, the last one counts.

        Raises:
            DefinitionError: that is no step, or the fake cannot take its place.
            NotSerializable: a value that is to be its result could not be.
        """
        check_step(step)
        self.step = step
        self._signature = signature_of(step)
        self._takes_ctx: str | None = None
        self._fake = self._checked(fake)
        self._overrides = overrides
        overrides.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"<override of {self.step!r}>"

    def undo(self) -> None:
        """Let the step have its own body again, or the fake that was there before; bodies in flight go on."""
        if self in self._overrides:
            self._overrides.remove(self)

    def covers(self, step: Step[..., Any]) -> bool:
        """Whether it stands in for the body of a call of this step."""
        return is_of(step, self.step)

    def stand_in(self, step: Step[..., Any]) -> Step[..., Any]:
        """Return a step that differs in its body only. It is awaited if the step is async, or the fake."""
        actor = double(step)
        actor.takes_ctx = self._takes_ctx
        is_async = inspect.iscoroutinefunction(self._fake) or inspect.iscoroutinefunction(
            getattr(self._fake, "__call__", None)  # noqa: B004 - an instance may have an async one
        )
        actor.is_async = step.is_async or is_async
        actor.fn = self._play_async if actor.is_async else self._play
        return actor

    def _play(self, *args: Any, **kwargs: Any) -> Any:
        given = {name: value for name, value in kwargs.items() if name == self._takes_ctx}
        kwargs = {name: kwargs[name] for name in kwargs if name not in {self._takes_ctx, self.step.takes_ctx}}
        if self.step.owner is not None:
            args = args[1:]
        bound = bind(self._signature, args, kwargs)
        return self._fake(*bound.args, **bound.kwargs, **given)

    async def _play_async(self, *args: Any, **kwargs: Any) -> Any:
        result = self._play(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    def _checked(self, fake: object) -> Callable[..., Any]:
        """Return the fake as a function."""
        if isinstance(fake, Decorated):
            raise DefinitionError(f"{fake!r} is to stand in for {self.step!r}", advice="give a plain function: its .fn")
        if isinstance(fake, BaseException) or (isinstance(fake, type) and issubclass(fake, BaseException)):
            return _raising(fake)
        if not callable(fake):
            self.step.result.encode(fake)
            return lambda *_args, **_kwargs: fake
        if _tells(fake):
            self._takes_ctx = _context_of(fake, self.step)
            _check_signature(fake, self.step, self._signature, self._takes_ctx)
        return fake


def check_step(step: object) -> None:
    """Refuse what is no step.

    Raises:
        DefinitionError: it is none.
    """
    if not isinstance(step, Step):
        raise DefinitionError(
            f"{step!r} is no step",
            advice="name the steps that it calls" if isinstance(step, Decorated) else "name what @step made of it",
        )


def is_of(step: Step[..., Any], asked: Step[..., Any]) -> bool:
    """Whether a call's step is the one asked for: a method at any owner, or at the one that it was found at."""
    if step.definition is not asked.definition:
        return False
    owner = asked.owner
    if owner is None or owner is step.owner:
        return True
    return isinstance(owner, type) and isinstance(step.owner, type) and issubclass(step.owner, owner)


def double(step: Step[..., Any]) -> Step[..., Any]:
    """Return a copy of a step, to be given another body."""
    actor = copy.copy(step)
    vars(actor)[_REAL] = step
    return actor


def real(step: Step[..., Any]) -> Step[..., Any]:
    """Return the step that a call is of, whatever its body was last time."""
    found: Step[..., Any] = vars(step).get(_REAL, step)
    return found


def signature_of(step: Step[..., Any]) -> inspect.Signature:
    """Return how the function of a step is called, without the context, and without the owner it is bound to.

    One that does not tell takes anything.
    """
    parameters = [*step.definition.function.parameters]
    if not parameters and not _tells(step.fn):
        args = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
        parameters = [args, inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]
    elif step.owner is not None and parameters[0].kind in _POSITIONAL:
        del parameters[0]
    return inspect.Signature(parameters)


def bind(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundArguments:
    """Return a call's arguments, those that were left out included: all by position that can be."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound


def _tells(fn: Callable[..., Any]) -> bool:
    try:
        inspect.signature(fn)
    except (TypeError, ValueError):  # some builtins do not
        return False
    return True


def _context_of(fake: Callable[..., Any], step: Step[..., Any]) -> str | None:
    """Return the keyword by which a fake takes the step's context, if it does."""
    parameters = inspect.signature(fake).parameters.values()
    own = [one.name for one in parameters if one.default is INJECTED]
    named = [one.name for one in parameters if one.name == step.takes_ctx and one.kind in _NAMED]
    return next(iter(own + named), None)


def _check_signature(
    fake: Callable[..., Any], step: Step[..., Any], signature: inspect.Signature, takes_ctx: str | None
) -> None:
    args: list[object] = []
    kwargs: dict[str, object] = {} if takes_ctx is None else {takes_ctx: None}
    for one in signature.parameters.values():
        if one.kind in _POSITIONAL or one.kind is inspect.Parameter.VAR_POSITIONAL:
            args.append(one)
        else:
            kwargs[one.name] = one
    found = inspect.signature(fake)
    several = {one.kind for one in signature.parameters.values()} - {one.kind for one in found.parameters.values()}
    try:
        found.bind(*args, **kwargs)
        if several & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            raise TypeError("it takes a fixed number of arguments")  # noqa: TRY301 - as if it were called with more
    except TypeError as error:
        raise DefinitionError(
            f"{getattr(fake, '__qualname__', repr(fake))}{found} cannot stand in for {step!r}: {error}",
            advice=f"it is called with all of {signature}, by position where that is possible",
        ) from None


def _raising(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    def fail(*_args: Any, **_kwargs: Any) -> Any:
        raise error if isinstance(error, type) else error.with_traceback(None)

    return fail


__all__ = ["Fake", "Override", "bind", "check_step", "double", "is_of", "real", "signature_of"]
