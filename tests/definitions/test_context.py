from __future__ import annotations

import asyncio
import copy
import datetime as dt
import logging
import pickle
import random
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest

import perdure
from perdure import INJECTED, RunContext, StepContext
from perdure.context import current_fiber, current_run, enter_step, entered, in_step, leave_step
from perdure.errors import NotInRun, StepAborted
from tests.definitions.conftest import Attempt, Sink
from tests.definitions.tiny import NOON, TinyFiber, TinyRun, in_run, in_sync_run


class TestStepContext:
    def test_it_says_what_it_was_made_with(self, step_context: StepContext[None]) -> None:
        assert (step_context.run_id, step_context.workflow, step_context.step) == ("r1", "w", "charge")
        assert (step_context.key, step_context.attempt, step_context.idempotency_key) == ("charge#1", 2, "idem")
        assert step_context.deadline == dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)

    def test_progress_and_artifacts_go_to_the_sink(self, step_context: StepContext[None], sink: Sink) -> None:
        step_context.progress({"done": 3})
        step_context.artifact("a.txt", b"x")
        assert sink.said == [{"done": 3}, ("a.txt", b"x")]

    def test_an_abort_is_seen_and_raised(self, step_context: StepContext[None], abort: threading.Event) -> None:
        step_context.raise_if_cancelled()
        assert not step_context.cancelled
        abort.set()
        assert step_context.cancelled
        with pytest.raises(StepAborted, match="charge#1"):
            step_context.raise_if_cancelled()

    def test_its_log_records_carry_run_step_and_attempt(
        self, step_context: StepContext[None], caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO):
            step_context.logger.info("paid %s", 3, extra={"attempt": 9, "mine": 1})
        record = caplog.records[0]
        assert (record.getMessage(), record.name) == ("paid 3", "perdure.step")
        assert {n: vars(record)[n] for n in ("run_id", "step", "attempt", "mine")} == {
            "run_id": "r1",
            "step": "charge",
            "attempt": 9,
            "mine": 1,
        }


class TestRunContext:
    def test_its_logger_is_silent_while_replaying(self, caplog: pytest.LogCaptureFixture) -> None:
        run = TinyRun()
        context = RunContext(run)
        with caplog.at_level(logging.INFO):
            run.replaying = True
            context.logger.info("again")
            context.logger.warning("again")
            assert not context.logger.isEnabledFor(logging.ERROR)
            run.replaying = False
            context.logger.info("live")
        assert [(r.getMessage(), vars(r)["run_id"]) for r in caplog.records] == [("live", "r1")]

    def test_it_is_found_deeper_down_in_workflows_of_both_colours(self) -> None:
        async def body() -> str:
            return perdure.run_context().run_id

        assert in_run(body) == "r1"
        assert in_sync_run(lambda: perdure.run_context().run_id) == "r1"

    def test_elsewhere_there_is_none(self, attempt: Attempt) -> None:
        with pytest.raises(NotInRun) as caught:
            perdure.run_context()
        assert "@workflow" in caught.value.advice
        token = enter_step(attempt)
        with pytest.raises(NotInRun) as caught:
            perdure.run_context()
        leave_step(token)
        assert "step_context()" in caught.value.advice


class TestStepContextDeeperDown:
    def test_it_is_found_in_the_body_and_in_threads_that_copy_its_context(self, attempt: Attempt) -> None:
        token = enter_step(attempt)
        assert perdure.step_context() is attempt.context
        assert in_step()
        copied = copy_context()
        leave_step(token)
        assert not in_step()
        assert copied.run(perdure.step_context) is attempt.context

    def test_elsewhere_there_is_none(self) -> None:
        with pytest.raises(NotInRun) as caught:
            perdure.step_context()
        assert "@step" in caught.value.advice

    def test_a_workflow_has_none_even_if_the_variable_leaks_in(self, attempt: Attempt) -> None:
        async def body() -> None:
            assert not in_step()
            with pytest.raises(NotInRun) as caught:
                perdure.step_context()
            assert "run_context()" in caught.value.advice

        token = enter_step(attempt)
        in_run(body)
        leave_step(token)


class TestWhereAmI:
    def test_the_running_loop_decides(self) -> None:
        run = TinyRun()

        async def body() -> None:
            assert current_run() is run
            assert await asyncio.create_task(current(), context=copy_context()) is run

        async def current() -> object:
            return current_run()

        assert current_run() is None
        in_run(body, run)
        assert asyncio.run(current()) is None

    def test_in_a_sync_workflow_the_thread_decides(self) -> None:
        run = TinyRun()
        found: list[object] = []

        def body() -> None:
            found.append(current_run())
            thread = threading.Thread(target=copy_context().run, args=(lambda: found.append(current_run()),))
            thread.start()
            thread.join()

        in_sync_run(body, run)
        assert found == [run, None]
        assert current_fiber() is None

    def test_fibers_nest_and_are_left_on_errors(self) -> None:
        outer, inner = TinyFiber(TinyRun()), TinyFiber(TinyRun())

        def fail() -> None:
            with entered(inner):
                assert current_fiber() is inner
                raise KeyError

        with entered(outer):
            with pytest.raises(KeyError):
                fail()
            assert current_fiber() is outer


class TestWhatWouldDifferOnReplay:
    def test_in_a_workflow_it_is_the_runs(self) -> None:
        run = TinyRun()
        run.replaying = True

        async def body() -> list[object]:
            return [perdure.now(), perdure.uuid4().int, perdure.random().random(), perdure.is_replaying()]

        expected = [NOON, 7, random.Random(7).random(), True]  # noqa: S311 - no secret
        assert in_run(body, run) == expected
        assert (
            in_sync_run(
                lambda: [perdure.now(), perdure.uuid4().int, perdure.random().random(), perdure.is_replaying()], run
            )
            == expected
        )

    def test_elsewhere_it_is_the_ordinary_thing(self) -> None:
        assert perdure.now().utcoffset() == dt.timedelta(0)
        assert perdure.uuid4() != perdure.uuid4()
        assert perdure.random().random() != perdure.random().random()
        assert not perdure.is_replaying()


def through_pickle(value: object) -> object:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, through_pickle])
def test_there_is_one_injected(again: Callable[[Any], Any]) -> None:
    assert again(INJECTED) is INJECTED
    assert repr(INJECTED) == "INJECTED"
