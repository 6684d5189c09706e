"""A process that is short of memory while it writes or reads a value: neither the value nor the run is to blame."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, model_validator

from perdure import INJECTED, Signal, StepContext, step, workflow
from perdure.model.codec import ValueCodec
from perdure.model.equality import same
from perdure.model.records import Kind, Status
from tests.engine.desk import PATIENCE, engine_at, in_loop, in_status, log_of

short: set[str] = set()
"""What there is no memory for, once."""
begun: list[int] = []
go_on = Signal[None]("go on")


@pytest.fixture(autouse=True)
def enough() -> None:
    short.clear()
    begun.clear()
    lack[:] = [MemoryError]


class Panic(BaseException):
    """What comes out of an extension written in Rust that cannot go on; it is no ``Exception``."""


lack: list[type[BaseException]] = [MemoryError]
"""How that shows."""


def need(what: str) -> None:
    if what in short:
        short.remove(what)
        raise lack[0]


class Large(BaseModel):
    n: int

    @model_validator(mode="before")
    @classmethod
    def read(cls, given: Any) -> Any:
        need("reading")
        return given


class Mark:
    """Says nothing, in an annotation."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        need("building")
        return handler(source)


class Odd:
    """Nothing that a schema knows of."""

    def __eq__(self, other: object) -> bool:
        need("comparing")
        return isinstance(other, Odd)

    __hash__ = None  # type: ignore[assignment]


@step
async def make(n: int, *, ctx: StepContext[Any] = INJECTED) -> Large:
    begun.append(ctx.attempt)
    ctx.artifact("copy", b"copy")
    made = Large(n=n)
    if "returning" in short:
        short.clear()
        short.add("reading")  # as is done at once with what was written
    return made


@workflow
async def makes(n: int) -> int:
    made = await make(n)
    await go_on.wait()
    return made.n


HOW = pytest.mark.parametrize("how", [MemoryError, Panic])


@HOW
@in_loop
async def test_a_result_that_could_not_be_written_is_no_failure_of_the_step(path, how):
    lack[:] = [how]
    short.add("returning")
    async with engine_at(path, makes) as engine:
        handle = await engine.enqueue(makes, 7, run_id="r")
        await handle.signal(go_on)
        assert await handle.result(timeout=PATIENCE) == 7
        kinds = [event.kind for event in await log_of(engine, "r")]
    assert begun == [1, 1]
    assert Kind.STEP_FAILED not in kinds
    assert kinds.count(Kind.ARTIFACT_KEPT) == 1


@HOW
@in_loop
async def test_a_recorded_value_that_could_not_be_read_is_no_drift(path, how):
    lack[:] = [how]
    async with engine_at(path, makes) as engine:
        handle = await engine.enqueue(makes, 7, run_id="r")
        await in_status(engine, "r", Status.WAITING)
    short.add("reading")
    async with engine_at(path, makes) as engine:
        handle = engine.get("r", makes)
        await handle.signal(go_on)
        assert await handle.result(timeout=PATIENCE) == 7
        assert Kind.DRIFT_FOUND not in [event.kind for event in await log_of(engine, "r")]
    assert short == set()
    assert begun == [1]


def test_a_codec_that_lacks_memory_says_so_and_works_later():
    codec, large = ValueCodec(Annotated[Large, Mark()]), Large(n=1)
    short.add("building")
    with pytest.raises(MemoryError):
        codec.encode(large)
    data = codec.encode(large)
    assert data == b'{"n":1}'
    for ask in (lambda: codec.roundtrip(large)[1], lambda: codec.decode(data), lambda: codec.admit({"n": 1})):
        short.add("reading")
        with pytest.raises(MemoryError):
            ask()
        assert ask() == large
    short.add("comparing")
    with pytest.raises(MemoryError):
        same([Odd()], [Odd()])
