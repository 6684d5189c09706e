from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from perdure import INJECTED, RunContext, StepContext, workflow
from perdure.context import enter_step, leave_step
from perdure.errors import ColourError, DefinitionError, DuplicateName, NotInRun
from perdure.workflow import AsyncWorkflow, SyncWorkflow, collect
from tests.definitions.conftest import Attempt
from tests.definitions.tiny import TinyRun, in_run, in_sync_run


@workflow
async def fulfil(order: int, *, ctx: RunContext = INJECTED) -> str:
    return f"{order} {ctx.run_id}"


@workflow(name="nightly-report", version="2", queue="slow")
def report() -> str:
    return "done"


async def two(a: int, b: int) -> None: ...
async def many(*items: int) -> None: ...
async def keyword(*, item: int) -> None: ...
async def with_default(item: int = 3) -> None: ...
async def wrong_context(*, ctx: StepContext[None] = INJECTED) -> None: ...
async def forgotten(item: int, ctx: RunContext) -> None: ...


class Flows:
    async def method(self) -> None: ...


class TestWhatCannotBeAWorkflow:
    @pytest.mark.parametrize(
        ("fn", "advice"),
        [
            pytest.param(two, "in one model", id="two inputs"),
            pytest.param(many, "one model", id="any number of inputs"),
            pytest.param(keyword, "one model", id="a keyword input"),
            pytest.param(with_default, "leave the default out", id="a default"),
            pytest.param(wrong_context, "tools and attempts belong to steps", id="a step's context"),
            pytest.param(forgotten, "= INJECTED", id="a context without default"),
            pytest.param(Flows.method, "at module level", id="a method"),
            pytest.param(Flows().method, "at module level", id="a bound method"),
            pytest.param(functools.partial(two, 1), "at module level", id="a partial"),
            pytest.param(Flows, "put @workflow on a function", id="a class"),
            pytest.param(fulfil, "decorate it once", id="a workflow"),
            pytest.param(lambda: 1, 'write workflow(name="…")', id="a lambda without a name"),
        ],
    )
    def test_it_is_refused_where_it_is_written_with_advice(self, fn: Any, advice: str) -> None:
        with pytest.raises(DefinitionError) as caught:
            workflow(fn)
        assert advice in caught.value.advice

    @pytest.mark.parametrize("options", [{"name": ""}, {"version": 2}, {"version": ""}, {"queue": 1}], ids=repr)
    def test_wrong_options_are_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(DefinitionError):
            workflow(**options)(fulfil.fn)


class TestWhatAWorkflowIs:
    def test_it_knows_what_is_needed_to_find_it_again(self) -> None:
        assert (fulfil.name, fulfil.version, fulfil.queue) == ("fulfil", "1", "")
        assert (report.name, report.version, report.queue) == ("nightly-report", "2", "slow")
        assert (report.module, report.qualname, report.source_file) == (__name__, "report", __file__)

    def test_colour_and_input_are_the_functions(self) -> None:
        assert isinstance(fulfil, AsyncWorkflow)
        assert isinstance(report, SyncWorkflow)
        assert (fulfil.takes_input, report.takes_input) == (True, False)

    def test_input_and_output_are_written_by_their_annotations(self) -> None:
        assert (fulfil.input.hint, fulfil.output.hint) == (int, str)
        assert report.input.decode(report.input.encode(None)) is None

    def test_invoke_gives_input_and_context(self) -> None:
        context = RunContext(TinyRun())
        coroutine = fulfil.invoke(3, context)
        with pytest.raises(StopIteration) as done:
            coroutine.send(None)
        assert done.value.value == "3 r1"
        assert report.invoke(None, context) == "done"

    def test_a_local_workflow_is_allowed(self) -> None:
        @workflow
        async def local() -> None: ...

        assert local.name == "local"


class TestCalling:
    @pytest.mark.parametrize(
        "call", [lambda: fulfil(1), lambda: fulfil.aio(1), report, report.sync], ids=["a", "b", "c", "d"]
    )
    def test_outside_a_run_it_is_refused_naming_perdure_run(self, call: Callable[[], Any]) -> None:
        with pytest.raises(NotInRun) as caught:
            call()
        assert "perdure.run(" in caught.value.advice
        assert ".fn is the plain function" in caught.value.advice

    def test_inside_a_step_it_is_refused(self, attempt: Attempt) -> None:
        token = enter_step(attempt)
        try:
            with pytest.raises(NotInRun, match="called in a step"):
                fulfil(1)
        finally:
            leave_step(token)

    def test_inside_a_run_it_is_a_child(self) -> None:
        run = TinyRun()

        async def body() -> None:
            await fulfil(1)
            await report.aio()

        in_run(body, run)
        in_sync_run(report, run)
        in_sync_run(lambda: fulfil.sync(2), run)
        assert run.asked == [
            ("fulfil", (1,), {}),
            ("nightly-report", (), {}),
            ("nightly-report", (), {}),
            ("fulfil", (2,), {}),
        ]

    def test_the_wrong_colour_is_refused(self) -> None:
        async def body() -> None:
            with pytest.raises(ColourError, match="would block"):
                report()

        in_run(body)
        with pytest.raises(ColourError) as caught:
            in_sync_run(lambda: fulfil(1))
        assert caught.value.advice == "write fulfil.sync(…)"


class TestCollect:
    def test_by_name_and_version(self) -> None:
        second = workflow(name="fulfil", version="2")(two_in_one)
        assert collect([fulfil, second, fulfil]) == {("fulfil", "1"): fulfil, ("fulfil", "2"): second}

    def test_two_functions_of_one_name_and_version_are_refused_naming_both(self) -> None:
        with pytest.raises(DuplicateName) as caught:
            collect([fulfil, workflow(name="fulfil")(two_in_one)])
        assert "fulfil" in str(caught.value)
        assert "two_in_one" in str(caught.value)

    @pytest.mark.parametrize("item", [two, 3, "fulfil"])
    def test_what_is_no_workflow_is_refused(self, item: Any) -> None:
        with pytest.raises(DefinitionError, match="not a workflow"):
            collect([item])


async def two_in_one(both: tuple[int, int]) -> None: ...


def build(source: str) -> str:
    names: dict[str, Any] = {"__name__": "m"}
    exec(compile(source, "m.py", "exec", dont_inherit=True), names)  # noqa: S102 - the source is the test's
    made: str = workflow(names["f"]).build
    return made


class TestBuild:
    SOURCE = "def f(x):\n    'Says.'\n    return x in {'a', 'b', 'c', 'd'}, [lambda: 1]\n"

    @pytest.mark.parametrize(
        "other",
        [
            "\n\n# a comment\n" + SOURCE,
            SOURCE.replace("'Says.'", "'Says more.'  # and a comment"),
            SOURCE.replace("    return", "\n    return"),
        ],
    )
    def test_lines_comments_and_docstrings_do_not_change_it(self, other: str) -> None:
        assert build(self.SOURCE) == build(other)

    @pytest.mark.parametrize(
        "change", [("'d'", "'e'"), ("lambda: 1", "lambda: 2"), ("lambda: 1", "lambda: True"), ("x in", "x not in")]
    )
    def test_code_changes_it(self, change: tuple[str, str]) -> None:
        assert build(self.SOURCE) != build(self.SOURCE.replace(*change))

    def test_it_is_the_same_in_every_process(self) -> None:
        script = (
            "from perdure import workflow\n"
            f"names = {{'__name__': 'm'}}\nexec(compile({self.SOURCE!r}, 'm.py', 'exec'), names)\n"
            "print(workflow(names['f']).build)"
        )
        found = {
            subprocess.run(
                [sys.executable, "-c", script],
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
                check=True,
                capture_output=True,
                text=True,
            ).stdout.strip()
            for seed in ("1", "2", "3")
        }
        assert found == {build(self.SOURCE)}

    def test_wrapped_code_counts(self) -> None:
        def wrap(inner: Callable[[], int]) -> Callable[[], int]:
            @functools.wraps(inner)
            def wrapper() -> int:
                return inner()

            return wrapper

        assert workflow(name="a")(wrap(lambda: 1)).build != workflow(name="a")(wrap(lambda: 2)).build
