from __future__ import annotations

import threading

import pytest

from perdure import StepContext


class Sink:
    """Keeps what an attempt reports."""

    def __init__(self) -> None:
        self.said: list[object] = []

    def progress(self, value: object, /) -> None:
        self.said.append(value)

    def artifact(self, name: str, data: bytes, /) -> None:
        self.said.append((name, data))

    def about(self) -> dict[str, object]:
        return {"run_id": "r1", "workflow": "w", "step": "charge", "attempt": 2}


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def abort() -> threading.Event:
    return threading.Event()


@pytest.fixture
def step_context(sink: Sink, abort: threading.Event) -> StepContext[None]:
    return StepContext("r1", "w", "charge", "charge#1", 2, lambda: "idem", None, 1_000_000, abort, sink)


class Attempt:
    """An attempt whose context is given."""

    def __init__(self, context: StepContext[None]) -> None:
        self.context = context

    def step_context(self) -> StepContext[None]:
        return self.context


@pytest.fixture
def attempt(step_context: StepContext[None]) -> Attempt:
    return Attempt(step_context)
