"""Small workflow programs made by chance: trees of everything that waits, forks, gives up and cleans up over steps."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from hypothesis import strategies as st

from perdure import parallel, workflow
from tests.runtime.harness import blocking, cancel_me, fail, trace, work

MS = st.sampled_from([0, 1, 5, 10, 20, 40, 200])
LEAVES = st.one_of(
    st.just(["work"]),
    st.just(["work"]),
    st.just(["blocking"]),
    st.just(["fail"]),
    st.just(["cancel"]),
    st.builds(lambda ms: ["slow", ms], MS),
    st.builds(lambda ms: ["sleep", ms], MS),
    st.just(["turn"]),
    st.just(["put"]),
    st.just(["get"]),
)
SEVERAL = {"all": 4, "group": 4, "parallel": 4, "first": 4, "completed": 4, "then": 4}
ONE = ("task", "shield", "locked", "cleaned", "caught")


def _inner(node):
    several = [
        st.builds(lambda nodes, name=name: [name, *nodes], st.lists(node, min_size=1, max_size=most))
        for name, most in SEVERAL.items()
    ]
    one = st.builds(lambda name, node: [name, node], st.sampled_from(ONE), node)
    limited = st.builds(
        lambda name, ms, node: [name, ms, node], st.sampled_from(["timeout", "wait_for", "cancelled"]), MS, node
    )
    return st.one_of(*several, one, limited)


PROGRAMS = st.recursive(LEAVES, _inner, max_leaves=14)


@workflow
async def program(tree: Any) -> str:
    """Execute a program; the trace tells what it saw."""
    return await Machine(trace()).go(tree)


class Machine:
    def __init__(self, noted):
        self.noted = noted
        self.tags = count(1)
        self.lock = asyncio.Lock()
        self.queue = asyncio.Queue(2)

    async def go(self, node):
        name, *rest = node
        tag = f"{name}{next(self.tags)}"
        try:
            result = await getattr(self, f"do_{name}")(tag, *rest)
        except BaseException as error:
            self.noted.append(f"{tag} raised {type(error).__name__}")
            raise
        self.noted.append(f"{tag} = {result}")
        return tag

    async def do_work(self, tag):
        return await work(tag)

    async def do_slow(self, tag, ms):
        return await work(tag, ms)

    async def do_blocking(self, tag):
        return await blocking.aio(tag)

    async def do_fail(self, tag):
        return await fail(tag)

    async def do_cancel(self, tag):
        return await cancel_me()

    async def do_sleep(self, tag, ms):
        await asyncio.sleep(ms / 1000)

    async def do_turn(self, tag):
        await asyncio.sleep(0)

    async def do_put(self, tag):
        self.queue.put_nowait(tag) if not self.queue.full() else None

    async def do_get(self, tag):
        async with asyncio.timeout(0.03):
            return await self.queue.get()

    async def do_then(self, tag, *nodes):
        return [await self.go(node) for node in nodes]

    async def do_all(self, tag, *nodes):
        return await asyncio.gather(*map(self.go, nodes), work(tag))

    async def do_parallel(self, tag, *nodes):
        return await parallel(*map(self.go, nodes), work(tag))

    async def do_group(self, tag, *nodes):
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.go(node)) for node in nodes]
                tasks.append(group.create_task(work(tag)))
        except* ValueError as errors:
            raise ValueError([str(e) for e in errors.exceptions]) from None
        except* TimeoutError:
            raise TimeoutError from None
        return [task.result() for task in tasks]

    async def do_first(self, tag, *nodes):
        tasks = [asyncio.ensure_future(self.go(node)) for node in nodes] + [asyncio.ensure_future(work(tag))]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.noted.append([tasks.index(task) for task in done])
        for task in pending:
            task.cancel()
        self.noted.append([type(one).__name__ for one in await asyncio.gather(*tasks, return_exceptions=True)])

    async def do_completed(self, tag, *nodes):
        tasks = [asyncio.create_task(self.go(node)) for node in nodes]
        try:
            return [await future for future in asyncio.as_completed([*tasks, work(tag)])]
        finally:
            for task in tasks:
                task.cancel()

    async def do_task(self, tag, node):
        return await asyncio.create_task(self.go(node))

    async def do_shield(self, tag, node):
        return await asyncio.shield(asyncio.create_task(self.go(node)))

    async def do_locked(self, tag, node):
        if self.lock.locked():
            return "taken"
        async with self.lock:
            return await self.go(node)

    async def do_cleaned(self, tag, node):
        try:
            return await self.go(node)
        finally:
            await work(f"clean {tag}")

    async def do_caught(self, tag, node):
        try:
            return await self.go(node)
        except Exception as error:
            return await work(f"caught {type(error).__name__}")

    async def do_timeout(self, tag, ms, node):
        async with asyncio.timeout(ms / 1000):
            return await self.go(node)

    async def do_wait_for(self, tag, ms, node):
        return await asyncio.wait_for(self.go(node), ms / 1000)

    async def do_cancelled(self, tag, ms, node):
        task = asyncio.create_task(self.go(node))
        await asyncio.sleep(ms / 1000)
        task.cancel()
        return type((await asyncio.gather(task, return_exceptions=True))[0]).__name__
