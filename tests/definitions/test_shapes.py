"""Whatever is decorated, and however it is annotated: arguments and results have the right types when read back."""

from __future__ import annotations

import asyncio
import inspect
import sys
from typing import Any

import pytest

from perdure.errors import DefinitionError
from perdure.workflow import Step
from tests.definitions import shapes
from tests.definitions.shapes import Box, Later, Service, Sub

SHAPES = {
    "a class defined later": shapes.later,
    "wrapped": shapes.wrapped,
    "method": Service().method,
    "async method": Service().amethod,
    "inherited method": Sub().method,
    "step over classmethod": Service.outer_class,
    "step over classmethod, by instance": Sub().outer_class,
    "step over staticmethod": Service.outer_static,
    "step over staticmethod, by instance": Service().outer_static,
    "staticmethod over step": Service.inner_static,
    "staticmethod over step, by instance": Sub().inner_static,
    "callable instance": shapes.instance,
    "async callable instance": shapes.async_instance,
    "partial": shapes.partial,
    "bound method": shapes.bound,
}


def call(step: Any, *args: Any) -> Any:
    result = step(*args)
    return asyncio.run(result) if inspect.isawaitable(result) else result


@pytest.mark.parametrize("step", SHAPES.values(), ids=SHAPES)
def test_arguments_and_result_come_back_with_their_types(step: Step[..., Any]) -> None:
    written = step.arguments.encode((Later(3),), {})
    assert written == b'{"x":{"n":3}}'
    assert step.arguments.decode(written) == ((Later(3),), {})
    result = call(step, Later(3))
    again = step.result.decode(step.result.encode(result))
    assert again == result
    assert type(again) is type(result)


@pytest.mark.parametrize("step", SHAPES.values(), ids=SHAPES)
def test_invoke_is_the_call(step: Step[..., Any]) -> None:
    made = step.invoke((Later(1),), {}, None)
    assert (asyncio.run(made) if step.is_async else made) in (Later(1), [Later(1)])


def test_one_step_has_one_definition_however_it_is_reached() -> None:
    assert Service().method.definition is Sub().method.definition is Service.method.definition
    assert Service().method.definition is not Service().amethod.definition
    assert Service().outer_class.definition is Service.outer_class.definition


def test_names_are_those_of_the_code() -> None:
    assert [s.name for s in (shapes.later, Service.method, Service.inner_class, Service.outer_static)] == [
        "later",
        "Service.method",
        "Service.inner_class",
        "Service.outer_static",
    ]
    assert [s.name for s in (shapes.instance, shapes.partial, shapes.bound, shapes.anonymous)] == [
        "Callee",
        "two",
        "Service.method",
        "anonymous",
    ]


def test_the_context_is_found_behind_wrappers_and_in_methods() -> None:
    assert shapes.wrapped.takes_ctx == Service().amethod.takes_ctx == "ctx"
    assert shapes.later.takes_ctx is None


def test_an_unbound_method_takes_its_owner_first() -> None:
    owner = Service()
    assert Service.method(owner, Later(1)) == Later(1)
    assert asyncio.run(Service.amethod.aio(owner, Later(1))) == Later(1)
    with pytest.raises(DefinitionError, match="without its owner"):
        Service.method()  # type: ignore[call-arg]


def test_a_classmethod_over_a_step_can_be_called() -> None:
    assert Service.inner_class(Later(1)) == Sub().inner_class(Later(1)) == Later(1)


def test_a_classmethod_over_a_step_is_a_step_like_any_other_or_says_what_to_write() -> None:
    if sys.version_info < (3, 13):
        assert Service.inner_class.sync(Later(1)) == Later(1)
        return
    with pytest.raises(DefinitionError) as caught:  # the class method no longer hands the class on
        Service.inner_class.sync(Later(1))
    assert caught.value.advice == "put @step above @classmethod"


def test_a_class_that_only_type_checkers_see_means_no_type_for_its_parameter_alone() -> None:
    assert [p.hint for p in shapes.unseen.arguments.hints.parameters] == [Any, Later]
    assert shapes.unseen.arguments.decode(b'{"x":1,"y":{"n":2}}') == ((1, Later(2)), {})


def test_quoted_generic_and_optional_annotations_are_read() -> None:
    assert shapes.quoted.arguments.decode(b'{"x":[{"n":2}]}') == (([Later(2)],), {})
    assert shapes.generic.arguments.decode(b'{"x":{"it":{"n":2}}}') == ((Box(Later(2)),), {})
    assert shapes.later.arguments.decode(b'{"x":null}') == ((None,), {})


def test_a_class_of_the_function_around_is_found() -> None:
    step = shapes.local()
    value = step.local(3)  # type: ignore[attr-defined]
    assert step.arguments.decode(step.arguments.encode((value,), {})) == ((value,), {})
    assert step.result.decode(step.result.encode(value)) == value


def test_a_workflow_may_name_a_class_that_comes_later() -> None:
    assert (shapes.flow.input.hint, shapes.flow.output.hint) == (Later, Later)
