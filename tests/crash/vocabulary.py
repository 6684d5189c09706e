"""A run that says every word: it sleeps, listens, has children, undoes, and goes on as a new run."""

from __future__ import annotations

from typing import Any

import perdure
from perdure import INJECTED, Signal, StepContext, continue_as_new, saga, sleep, step, workflow
from perdure.workflow import Workflow

Ctx = StepContext[Any]

WORDS = ("one", "two", "three")
"""What is said to it: two words in its first life, the last in its second."""
LIVES = 2
NUMBERS = (10, 1, 2, 3, 4)
"""The errands of each life: one that is started, one that is awaited, and three in a map."""

word = Signal[str]("word")
silence = Signal[str]("silence")
"""What nobody ever says."""


@step
async def set_out(life: int, *, ctx: Ctx = INJECTED) -> int:
    ctx.tools.ledger.note("begin", ctx)
    return life


@step
async def ask(n: int, *, ctx: Ctx = INJECTED) -> int:
    """Say that the n-th word is awaited."""
    ctx.tools.ledger.note("begin", ctx)
    ctx.tools.ledger.write("asked", ctx.run_id, str(n))
    return n


@step
async def fetch(n: int, *, ctx: Ctx = INJECTED) -> int:
    ctx.tools.ledger.note("begin", ctx)
    return 2 * n


@workflow
async def errand(n: int) -> int:
    return await fetch(n)


@step
async def borrow(thing: str, *, ctx: Ctx = INJECTED) -> str:
    ctx.tools.ledger.note("begin", ctx)
    ctx.tools.ledger.write("borrowed", ctx.run_id, thing, ctx.attempt, ctx.idempotency_key)
    return thing


@step
async def bring_back(thing: str, *, ctx: Ctx = INJECTED) -> None:
    ctx.tools.ledger.note("begin", ctx)
    ctx.tools.ledger.write("brought back", ctx.run_id, thing, ctx.attempt, ctx.idempotency_key)


@step
async def fall(life: int, *, ctx: Ctx = INJECTED) -> None:
    ctx.tools.ledger.note("begin", ctx)
    raise ValueError(life)


async def errands() -> list[int]:
    started = errand.start(NUMBERS[0])
    awaited = await errand(NUMBERS[1])
    mapped = await perdure.map(errand, NUMBERS[2:], limit=2)
    return [await started.result(), awaited, *mapped]


async def listen(n: int) -> str:
    await ask(n)
    return await word.wait(timeout="1h")


@workflow
async def says_everything(heard: list[str]) -> list[str]:
    """Live twice, and return what was heard in both lives."""
    life = await set_out(1 if heard else 0)
    await sleep("30ms")
    try:
        async with saga() as undo:
            undo.push(bring_back, f"kept {life}")
            undo.push(bring_back, f"lent {life}")
            await borrow(f"lent {life}")
            heard = [*heard, await listen(2 * life)]
            fetched = await errands()
            await fall(life)
    except ValueError:
        heard = [*heard, f"fell with {sum(fetched)}"]
    heard = [*heard, await silence.wait(timeout="20ms", default="silence")]
    if life == 0:
        heard = [*heard, await listen(1)]
        continue_as_new(heard)
    return heard


RESULT = ["one", "fell with 40", "silence", "two", "three", "fell with 40", "silence"]

WORKFLOWS: list[Workflow[Any, Any]] = [says_everything, errand]
