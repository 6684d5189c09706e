from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from perdure import INJECTED, Retry, RunContext, StepContext, step, workflow
from perdure.errors import ColourError, DefinitionError, NotInRun
from perdure.workflow import AsyncStep, SyncStep
from tests.definitions.tiny import TinyRun, in_run, in_sync_run


@step
async def charge(amount: int, *, currency: str = "EUR") -> str:
    return f"{amount} {currency}"


@step
def label(text: str) -> bytes:
    return text.encode()


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


async def coroutine_function() -> None: ...


@functools.wraps(coroutine_function)
def sync_wrapper() -> Any:
    return coroutine_function()


def no_default(ctx: StepContext[None]) -> None: ...


def positional(ctx: StepContext[None] = INJECTED) -> None: ...


def wrong_context(*, ctx: RunContext = INJECTED) -> None: ...


def twice(*, a: StepContext[None] = INJECTED, b: StepContext[None] = INJECTED) -> None: ...


class TestWhatCannotBeAStep:
    @pytest.mark.parametrize(
        ("fn", "advice"),
        [
            pytest.param(3, "put @step on a function", id="a value"),
            pytest.param(TinyRun, "put @step on a function", id="a class"),
            pytest.param(property(len), "put @step on a function", id="a property"),
            pytest.param(generator, "return a list", id="a generator"),
            pytest.param(async_generator, "return a list", id="an async generator"),
            pytest.param(functools.partial(generator), "return a list", id="a partial of a generator"),
            pytest.param(lambda: 1, 'write step(name="…")', id="a lambda without a name"),
            pytest.param(functools.partial(lambda: 1), 'write step(name="…")', id="a partial of a lambda"),
            pytest.param(charge, "decorate it once", id="a step"),
            pytest.param(staticmethod(label), "decorate it once", id="a static step"),
            pytest.param(functools.partial(label, "a"), "decorate it once", id="a partial of a step"),
            pytest.param(workflow(coroutine_function), "decorate it once", id="a workflow"),
            pytest.param(sync_wrapper, "make the wrapper async def", id="a wrapper of the other colour"),
            pytest.param(no_default, "= INJECTED", id="a context without default"),
            pytest.param(positional, "= INJECTED", id="a positional context"),
            pytest.param(wrong_context, "*, ctx: StepContext = INJECTED", id="a workflow's context"),
            pytest.param(twice, "= INJECTED", id="two contexts"),
        ],
    )
    def test_it_is_refused_where_it_is_written_with_advice(self, fn: Any, advice: str) -> None:
        with pytest.raises(DefinitionError) as caught:
            step(fn)
        assert advice in caught.value.advice

    @pytest.mark.parametrize(
        "options",
        [
            {"name": ""},
            {"name": 3},
            {"name": "a/b"},
            {"name": "a#1"},
            {"retry": 3},
            {"retry": True},
            {"timeout": 0},
            {"timeout": "-1s"},
            {"timeout": "soon"},
            {"timeout": float("nan")},
            {"timeout": True},
            {"at_most_once": 1},
            {"at_most_once": True, "retry": Retry(max_attempts=2)},
        ],
        ids=repr,
    )
    def test_wrong_options_are_refused_in_the_decorator(self, options: dict[str, Any]) -> None:
        with pytest.raises(DefinitionError):
            step(**options)(label.fn)

    @pytest.mark.parametrize(
        "options",
        [
            {"key": ""},
            {"key": 3},
            {"key": "a/b"},
            {"retry": 3},
            {"timeout": 0},
            {"at_most_once": None},
            {"at_most_once": True, "retry": Retry(max_attempts=2)},
        ],
        ids=repr,
    )
    def test_wrong_options_are_refused_in_with_options(self, options: dict[str, Any]) -> None:
        with pytest.raises(DefinitionError):
            label.with_options(**options)

    def test_at_most_once_is_checked_against_what_the_step_has_already(self) -> None:
        retried = step(retry=Retry(max_attempts=2))(label.fn)
        with pytest.raises(DefinitionError):
            retried.with_options(at_most_once=True)
        assert retried.with_options(at_most_once=True, retry=None).at_most_once


class TestWhatAStepIs:
    def test_defaults_are_one_attempt_and_no_timeout(self) -> None:
        assert (label.retry.max_attempts, label.timeout, label.at_most_once, label.key) == (1, None, False, None)

    def test_options_are_kept(self) -> None:
        made = step(name="n", retry=Retry(max_attempts=5), timeout=timedelta(minutes=1))(label.fn)
        assert (made.name, made.retry.max_attempts, made.timeout) == ("n", 5, 60.0)

    def test_it_looks_like_the_function(self) -> None:
        assert inspect.signature(charge) == inspect.signature(charge.fn)
        assert charge.__name__ == "charge"  # type: ignore[attr-defined]
        assert charge.__wrapped__ is charge.fn  # type: ignore[attr-defined]

    def test_options_make_a_variant_and_leave_the_step_alone(self) -> None:
        other = label.with_options(key="a", timeout="3s", retry=Retry(max_attempts=2))
        assert (other.key, other.timeout, other.retry.max_attempts) == ("a", 3.0, 2)
        assert (label.key, label.timeout, label.retry.max_attempts) == (None, None, 1)
        assert other.definition is label.definition
        assert other.with_options(timeout=None).timeout is None
        assert other.with_options(timeout=None).key == "a"

    def test_two_steps_of_one_function_are_different_steps(self) -> None:
        assert step(label.fn).definition is not label.definition

    def test_a_local_function_is_named_as_it_is_written(self) -> None:
        @step
        def inner() -> None: ...

        assert inner.name == "inner"

    def test_colour_is_the_functions(self) -> None:
        assert isinstance(charge, AsyncStep)
        assert isinstance(label, SyncStep)
        assert (charge.is_async, label.is_async) == (True, False)


class TestOutsideARun:
    def test_a_step_is_the_plain_function(self) -> None:
        assert asyncio.run(charge(3, currency="CHF")) == "3 CHF"
        assert asyncio.run(charge.aio(3)) == "3 EUR"
        assert asyncio.run(label.aio("a")) == b"a"
        assert label("a") == label.sync("a") == b"a"

    def test_nothing_can_block_for_an_async_step(self) -> None:
        with pytest.raises(ColourError) as caught:
            charge.sync(3)
        assert "await charge(…)" in caught.value.advice

    def test_a_context_that_nobody_gave_says_so_when_it_is_used(self) -> None:
        @step
        def needs(*, ctx: StepContext[None] = INJECTED) -> int:
            return ctx.attempt

        with pytest.raises(NotInRun) as caught:
            needs()
        assert "pass the context yourself" in caught.value.advice
        with pytest.raises(AttributeError):
            INJECTED.__wrapped__  # noqa: B018 - introspection asks for such names

    def test_it_is_plain_inside_another_event_loop(self) -> None:
        async def main() -> bytes:
            return label("a")

        assert asyncio.run(main()) == b"a"


class TestInARun:
    def test_every_spelling_of_the_right_colour_is_recorded(self) -> None:
        run = TinyRun()

        async def body() -> list[object]:
            return [
                await charge(1),
                await charge.aio(2, currency="CHF"),
                await label.aio("a"),
                await charge.with_options(key="k")(3),
            ]

        assert in_run(body, run) == ["1 EUR", "2 CHF", b"a", "3 EUR"]
        assert run.asked == [
            ("charge", (1,), {}),
            ("charge", (2,), {"currency": "CHF"}),
            ("label", ("a",), {}),
            ("charge[k]", (3,), {}),
        ]

    def test_every_spelling_of_the_right_colour_is_recorded_in_a_sync_workflow(self) -> None:
        run = TinyRun()

        def body() -> list[object]:
            return [label("a"), label.sync("b"), charge.sync(1)]

        assert in_sync_run(body, run) == [b"a", b"b", "1 EUR"]
        assert [name for name, _, _ in run.asked] == ["label", "label", "charge"]

    @pytest.mark.parametrize(
        ("call", "right"),
        [
            pytest.param(lambda: label("a"), "await label.aio(…)", id="sync step, plainly"),
            pytest.param(lambda: label.sync("a"), "await label.aio(…)", id="sync step, .sync"),
            pytest.param(lambda: charge.sync(1), "await charge(…)", id="async step, .sync"),
        ],
    )
    def test_what_would_block_an_async_workflow_is_refused_naming_the_right_spelling(
        self, call: Callable[[], Any], right: str
    ) -> None:
        run = TinyRun()

        async def body() -> None:
            with pytest.raises(ColourError) as caught:
                call()
            assert right in caught.value.advice

        in_run(body, run)
        assert run.asked == []

    @pytest.mark.parametrize(
        ("call", "right"),
        [
            pytest.param(lambda: charge(1), "charge.sync(…)", id="async step, plainly"),
            pytest.param(lambda: charge.aio(1), "charge.sync(…)", id="async step, .aio"),
            pytest.param(lambda: label.aio("a"), "label(…)", id="sync step, .aio"),
        ],
    )
    def test_a_coroutine_in_a_sync_workflow_is_refused_naming_the_right_spelling(
        self, call: Callable[[], Any], right: str
    ) -> None:
        run = TinyRun()

        def body() -> None:
            with pytest.raises(ColourError) as caught:
                call()
            assert caught.value.advice == f"write {right}"

        in_sync_run(body, run)
        assert run.asked == []

    @pytest.mark.parametrize(
        "call", [lambda: charge(1), lambda: charge.aio(1), lambda: label("a")], ids=["a", "b", "c"]
    )
    def test_an_event_loop_inside_a_sync_workflow_is_refused(self, call: Callable[[], Any]) -> None:
        async def main() -> None:
            with pytest.raises(NotInRun, match="event loop that a sync workflow started"):
                call()

        in_sync_run(lambda: asyncio.run(main()))

    def test_a_callback_is_no_place_for_a_step(self) -> None:
        async def body() -> None:
            caught: asyncio.Future[NotInRun] = asyncio.get_running_loop().create_future()

            def callback() -> None:
                with pytest.raises(NotInRun) as info:
                    charge(1)
                caught.set_result(info.value)

            asyncio.get_running_loop().call_soon(callback)
            assert "task" in (await caught).advice

        in_run(body)
