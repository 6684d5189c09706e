from __future__ import annotations

import functools
from typing import Annotated, Any

import pytest

from perdure.model.hints import UNTYPED, Hints, hint_of, names_used, return_hint
from tests.model import hinted
from tests.model.hinted import Later, LaterBox, Service


def hints(fn, **options):
    found = Hints(fn, **options)
    return {parameter.name: parameter.hint for parameter in found.parameters}, found.returns


def test_a_class_defined_below_the_function_is_found():
    assert hints(hinted.plain) == ({"order": Later, "count": int}, Later | None)
    assert hints(hinted.quoted) == ({"orders": list[Later]}, Later)
    assert hints(hinted.generic) == ({"box": LaterBox[int]}, type(None))


def test_what_cannot_be_resolved_leaves_its_own_parameter_untyped_and_no_other():
    assert hints(hinted.half) == ({"good": Later, "bad": UNTYPED, "worse": UNTYPED}, UNTYPED)


@pytest.mark.parametrize(
    ("fn", "skip_first"),
    [
        (hinted.decorated, False),
        (Service.of_class, False),
        (Service.__dict__["of_class"], True),
        (Service.static, False),
        (Service.__dict__["static"], False),
        (Service(), False),
        (functools.partial(hinted.half, bad=1, worse=2), False),
        (Service.__call__, True),
        (functools.partial(Service()), False),
    ],
    ids=[
        "decorated",
        "bound class method",
        "class method",
        "static",
        "static method",
        "callable",
        "partial",
        "__call__",
        "partial of callable",
    ],
)
def test_every_kind_of_callable_tells_its_types(fn, skip_first):
    found, returns = hints(fn, skip_first=skip_first)
    assert next(iter(found.values())) is Later
    assert returns in (Later, UNTYPED)


def test_a_method_sees_the_names_of_its_class():
    assert hints(Service.method, skip_first=True) == ({"order": Later, "inner": Service.Inner}, Later)
    assert hints(Service().method) == ({"order": Later, "inner": Service.Inner}, Later)


def test_a_local_class_is_found_through_the_closure_or_the_scope_of_the_definition():
    closed, others, local = hinted.make_local()
    assert hints(closed) == ({"local": local}, local)
    assert hints(others["open"]) == ({"local": UNTYPED}, UNTYPED)
    scope = names_used(others["open"], others["scope"])
    assert scope == {"Local": local}
    assert hints(others["open"], namespace=scope) == ({"local": local}, local)


def test_volatile_parameters_are_reported_and_the_mark_is_taken_off():
    found = Hints(hinted.marked)
    assert found.volatile == {"prompt", "seed"}
    assert [parameter.hint for parameter in found.parameters] == [str, Annotated[int, "kept"], float]


def test_injected_parameters_are_left_out():
    found = Hints(hinted.with_context, injected=hinted.INJECTED)
    assert [parameter.name for parameter in found.parameters] == ["order", "note"]
    assert found.injected == ("ctx",)


def test_nothing_is_resolved_before_it_is_asked_for():
    def early(x: NotYet) -> NotYet: ...  # noqa: F821 - defined below, in another way

    found = Hints(early)
    early.__globals__["NotYet"] = int
    try:
        assert found.returns is int
    finally:
        del early.__globals__["NotYet"]


def test_callables_that_tell_nothing_are_untyped():
    assert hints(lambda x, y=1: (x, y)) == ({"x": UNTYPED, "y": UNTYPED}, UNTYPED)
    assert return_hint(dict.fromkeys) is UNTYPED
    assert hints(type.__call__)[1] is UNTYPED


def test_single_hints_can_be_asked_for():
    assert hint_of(hinted.plain, "order") is Later
    assert hint_of(hinted.plain, "nothing") is Any
    assert return_hint(hinted.plain) == Later | None
