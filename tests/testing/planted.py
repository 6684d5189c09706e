"""Workflows with a bug that only a crash brings to light, and some without."""
# ruff: noqa: TID251, DTZ005, S311, PLW0603

from __future__ import annotations

import asyncio
import datetime as dt
import random
import threading
import time
import uuid

import perdure
from perdure import INJECTED, Retry, StepContext, step, workflow


@step
async def add(a: int, b: int) -> int:
    return a + b


@step
def double(n: int) -> int:
    return 2 * n


@step
async def name_of(n: int) -> str:
    return f"number {n}"


@step(retry=Retry(max_attempts=3, initial_delay="1m"))
async def stubborn(n: int, *, ctx: StepContext = INJECTED) -> int:
    if ctx.attempt < 3:
        raise ConnectionError(n)
    return n


# -- sound


@workflow
async def everything(n: int) -> list[str]:
    first = await add(n, 1)
    both = await perdure.parallel(double.aio(first), stubborn(first))
    await perdure.sleep("14d")
    return [str(perdure.now()), str(perdure.uuid4()), *map(str, both)]


@workflow
def sync_sound(n: int) -> int:
    return double(add.sync(n, 1))


@workflow
async def fails(n: int) -> int:
    await add(n, 1)
    raise ValueError(n)


@step
async def made_up() -> str:
    return uuid.uuid4().hex


@workflow
async def makes_up() -> str:
    return await made_up()


# -- unsound


@workflow
async def reads_the_clock(n: int) -> str:
    await add(n, 1)
    return await name_of(int(time.time()))


@workflow
async def asks_for_the_date(n: int) -> str:
    late = dt.datetime.now().year > 2000
    return await name_of(n) if late else ""


@workflow
async def draws_lots(n: int) -> int:
    await add(n, 1)
    return await (double.aio(n) if random.random() < 0.5 else add(n, n))


class Customer:
    def __init__(self, number):
        self.number = number


@workflow
async def goes_through_a_set(n: int) -> list[str]:
    customers = {Customer(i) for i in range(n)}
    return [await name_of(customer.number) for customer in customers]


@step
async def pays_with_any_key(n: int, *, ctx: StepContext = INJECTED) -> int:
    ctx.tools.effect("pay", uuid.uuid4().hex)
    return n


@workflow
async def pays(n: int) -> int:
    return await pays_with_any_key(n)


@step
async def pays_with_the_key(n: int, *, ctx: StepContext = INJECTED) -> int:
    ctx.tools.effect("pay", ctx.idempotency_key)
    return n


@workflow
async def pays_well(n: int) -> int:
    return await pays_with_the_key(n)


calls = 0


@workflow
async def counts_in_a_global(n: int) -> int:
    global calls
    calls += 1
    n = await add(n, calls)
    return await double.aio(n)


cache: dict[int, int] = {}


@workflow
async def caches_in_a_global(n: int) -> int:
    if n not in cache:
        cache[n] = await add(n, 1)
    return await double.aio(cache[n])


collected: list[int] = []


@step
async def collects(n: int) -> None:
    collected.append(n)


@workflow
async def passes_results_by_a_global(n: int) -> int:
    collected.clear()
    for i in range(n):
        await collects(i)
    return sum(collected)


@workflow
async def calls_a_step_in_a_thread(n: int) -> int:
    return await asyncio.to_thread(double, n)


@workflow
async def waits_for_a_thread(n: int) -> list[int]:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(double(n)))
    thread.start()
    thread.join()
    return [await add(found[0], 1)]


@workflow
async def forgets_to_await(n: int) -> int:
    add(n, 1)
    return n


@step(retry=Retry(max_attempts=3, initial_delay="1m"))
async def takes_apart(items: list[int]) -> int:
    total = items.pop() + items.pop()
    if items == [1]:
        raise ConnectionError(total)
    return total


@workflow
async def has_its_input_taken_apart(items: list[int]) -> list[int]:
    try:
        return [await takes_apart(items), *items]
    except ConnectionError as error:
        return [*error.args, *items]


@step
async def pay_here(*, ctx: StepContext = INJECTED) -> str:
    ctx.tools.effect("pay", ctx.idempotency_key)
    return "here"


@step
async def pay_there(*, ctx: StepContext = INJECTED) -> str:
    ctx.tools.effect("pay", ctx.idempotency_key)
    return "there"


@workflow
async def pays_elsewhere_if_it_takes_long(n: int) -> str:
    try:
        async with asyncio.timeout(60):
            return await pay_here()
    except TimeoutError:
        return await pay_there()


@workflow
async def acts_outside_a_step(n: int) -> int:
    n = await add(n, 1)
    outbox.effect("mail", "")
    return await add(n, 1)


outbox = None


@step(at_most_once=True)
async def shoots(n: int) -> int:
    return n


@workflow
async def shoots_once(n: int) -> int:
    return await shoots(n)
