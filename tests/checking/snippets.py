"""Snippets of workflows: what is found in them stands behind the line, ``#! rule``; clean ones have nothing."""

from __future__ import annotations

HEADER = """
from __future__ import annotations
import asyncio, contextlib, datetime as dt, logging, os, random, secrets, threading, time, uuid
import httpx, requests
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from pathlib import Path
from time import monotonic as tick
import numpy as np
import perdure
from perdure import INJECTED, RunContext, StepContext, parallel, sleep, step, workflow

@step
async def work(x): return x

@step
def label(x): return x

class Tools: ...
log = logging.getLogger(__name__)
"""

DIRTY = {
    "clocks": """
        @workflow
        async def wf():
            a = time.time()  #! clock
            b = tick()  #! clock
            c = datetime.now(dt.timezone.utc)  #! clock
            d = dt.datetime.utcnow()  #! clock
            e = date.today()  #! clock
            f = time.localtime()  #! clock
            return [time.perf_counter() for _ in range(3)]  #! clock
    """,
    "chance": """
        @workflow
        async def wf():
            random.random()  #! random
            random.shuffle([])  #! random
            uuid.uuid4()  #! random
            secrets.token_hex(3)  #! random
            os.urandom(8)  #! random
            np.random.rand(3)  #! random
            mine = random.Random()
            return mine.random()  #! random
    """,
    "reaching outside": """
        shared = requests.Session()

        @workflow
        async def wf(path: Path):
            open("x")  #! io
            requests.get("http://x")  #! io
            async with httpx.AsyncClient() as client:  #! io
                await client.get("http://x")
            shared.get("http://x")  #! io
            path.exists()  #! io
            (path / "x").read_text()  #! io
            Path("x").write_text("y")  #! io
            os.listdir(".")  #! io
    """,
    "the environment": """
        @workflow
        async def wf():
            os.environ["A"]  #! environment
            os.getenv("A")  #! environment
            os.environ.get("A")  #! environment
            hash("A")  #! identity
            return {id(wf): 1}  #! identity
    """,
    "a blocking sleep, in both colours": """
        @workflow
        async def wf():
            time.sleep(1)  #! sleep

        @workflow
        def plain():
            time.sleep(1)  #! sleep
    """,
    "threads and other loops": """
        @workflow
        async def wf():
            threading.Thread(target=print).start()  #! thread
            with ThreadPoolExecutor() as pool:  #! thread
                pool.submit(print)
            await asyncio.to_thread(print)  #! thread
            asyncio.get_running_loop().run_in_executor(None, print)  #! thread
            asyncio.run(work(1))  #! thread
    """,
    "orders of sets": """
        @workflow
        async def wf(names: set[str], a: dict, b: dict):
            for name in names:  #! set-order
                await work(name)
            for name in {"x", "y"}:  #! set-order
                await work(name)
            for name in a.keys() & b.keys():  #! set-order
                await work(name)
            for name in a.keys() - b:  #! set-order
                await work(name)
            several = {name.lower() for name in a}
            await parallel(*[work(name) for name in several])  #! set-order
            for at, name in enumerate(several | {"z"}):  #! set-order
                await work(name)
            for name in set(a).union(b):  #! set-order
                await work(name)
            await perdure.map(work, several)  #! set-order
            print(*several)  #! set-order
            return list(several), tuple(set(a))  #! set-order set-order
    """,
    "as_completed over coroutines": """
        async def branch(x):
            return await work(x)

        @workflow
        async def wf():
            for first in asyncio.as_completed([branch(1), branch(2)]):  #! as-completed
                await first
            several = [branch(x) for x in range(3)]
            for first in asyncio.as_completed(several):  #! as-completed
                await first
    """,
    "swallowed cancellations": """
        @workflow
        async def wf():
            try:
                await work(1)
            except:  #! swallow
                pass
            try:
                await work(1)
            except BaseException as error:  #! swallow
                return str(error)
            try:
                await work(1)
            except (ValueError, asyncio.CancelledError):  #! swallow
                return None
            with contextlib.suppress(asyncio.CancelledError):  #! swallow
                await work(1)
            try:
                await work(1)
            finally:
                return 1  #! swallow

        @workflow
        def plain():
            try:
                label(1)
            except BaseException:  #! swallow
                pass
    """,
    "effects of unwinding": """
        @workflow
        async def wf():
            try:
                await work(1)
            except BaseException:
                log.warning("failed")  #! finally-effect
                raise
            finally:
                print("done")  #! finally-effect
    """,
    "what is shared": """
        CACHE, COUNT = {}, 0
        SEEN = []
        BY_NAME = defaultdict(list)

        class Settings:
            limit = 3

        @workflow
        async def wf(x):
            global COUNT
            COUNT += 1  #! global-state
            SEEN.append(x)  #! global-state
            BY_NAME.update(x=1)  #! global-state
            SEEN[0] = x  #! global-state
            Settings.limit = 4  #! global-state
            del SEEN[0]  #! global-state
            httpx.timeout = 3  #! global-state
    """,
    "what a function around the workflow holds": """
        def make():
            seen = []
            count = 0

            @workflow
            async def wf(x):
                nonlocal count
                count = 1  #! global-state
                seen.append(x)  #! global-state

            return wf
    """,
    "calls that nobody awaits": """
        @workflow
        async def wf(x):
            work(1)  #! not-awaited
            never = work(2)  #! not-awaited
            label.aio(3)  #! not-awaited
            sleep("3s")  #! not-awaited
            perdure.parallel(work(1), work(2))  #! not-awaited
            work.with_options(key="a")(1)  #! not-awaited
            child(1)  #! not-awaited

        @workflow
        async def child(x): return x
    """,
    "the other colour": """
        @workflow
        async def wf():
            label(1)  #! colour
            await label(1)  #! colour
            work.sync(1)  #! colour

        @workflow
        def plain():
            work(1)  #! colour
            label.aio(1)  #! colour
    """,
    "steps that yield": """
        @step
        def lines(x):
            yield x  #! generator

        @step(name="other")
        async def more(x):
            for y in x:
                yield y  #! generator
    """,
    "loops that sleep": """
        @workflow
        async def wf(state):
            while not state.ready:  #! polling
                await asyncio.sleep(0.1)
            while True:  #! polling
                await sleep("1s")
    """,
    "comments that name no rule": """
        @workflow
        async def wf():
            time.time()  # perdure: ignore[clocks]  #! clock unknown-rule
    """,
    "helpers, methods and constructors": """
        class Order:
            def __init__(self):
                self.at = time.time()  #! clock

            @property
            def age(self):
                return self._age()

            def _age(self):
                return time.time() - self.at  #! clock

        def helper(order: Order):
            return deeper(lambda: order.age)

        def deeper(thunk):
            return thunk() + random.random()  #! random

        @workflow
        async def wf(x):
            return helper(Order())

        def never_called():
            return time.time()
    """,
    "inner functions and lambdas": """
        @workflow
        async def wf(xs):
            async def branch(x):
                time.sleep(1)  #! sleep
                return await work(x)

            xs.sort(key=lambda x: random.random())  #! random
            return await parallel(*[branch(x) for x in xs])
    """,
    "workflows made by a call": """
        async def fn(x):
            return time.time()  #! clock

        wf = workflow(fn)

        async def other(x):
            return uuid.uuid4()  #! random

        two = workflow(name="other")(other)
    """,
    "steps made by a call": """
        async def fn(x):
            return time.time()

        made = step(name="made")(fn)

        @workflow
        async def wf(x):
            made(x)  #! not-awaited
            return await made(x)
    """,
    "the function of a step, called as it is": """
        @step
        def stamp(x): return time.time()  #! clock

        @step
        def fine(x): return time.time()

        @workflow
        def wf(x):
            return stamp.fn(x) + fine(x)
    """,
}

CLEAN = {
    "what Perdure has for it": """
        @workflow
        async def wf(x, *, ctx: RunContext = INJECTED):
            now = perdure.now()
            later = now + dt.timedelta(days=1)
            stamp = datetime.fromtimestamp(now.timestamp(), dt.timezone.utc), time.localtime(3)
            name = perdure.uuid4(), uuid.uuid5(uuid.NAMESPACE_DNS, "x"), uuid.UUID(int=3)
            chance = perdure.random().choice([1, 2]), random.Random(42).random()
            ctx.logger.info("now")
            print(later)
            await sleep("1h")
            await asyncio.sleep(3600)
            return await asyncio.wait_for(work(1), 3)
    """,
    "bodies of steps": """
        @step
        async def anything(x, *, ctx: StepContext[Tools] = INJECTED):
            global log
            log = 1
            time.sleep(1)
            for y in {"a", "b"}:
                requests.get(y)
            try:
                await work(x)
            except:
                pass
            return time.time(), random.random(), open("x"), os.environ["A"]

        @workflow
        async def wf(x):
            return await anything(x)
    """,
    "sets whose order nobody sees": """
        @workflow
        async def wf(names: set[str], numbers: set[int], xs: list[str]):
            for name in sorted(names):
                await work(name)
            if "a" in names and names & {"b"}:
                return len(names), sum(len(n) for n in names), max(names), {n.lower() for n in names}
            for number in numbers:
                await work(number)
            for n in {1, 2, 3}:
                await work(n)
            tasks = {asyncio.create_task(work(x)) for x in xs}
            done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await work(task.result())
            for task in tasks:
                task.cancel()
            for first in asyncio.as_completed([work(1), work(2)]):
                await first
            for first in asyncio.as_completed([asyncio.create_task(work(1))]):
                await first
            for key in xs:
                await work(key)
            return [key for key in dict.fromkeys(xs)]
    """,
    "handlers that let a cancel go on": """
        @workflow
        async def wf(x):
            try:
                await work(x)
            except Exception:
                log.warning("failed")
                await work("undo")
            except BaseException:
                await work("undo")
                raise
            try:
                await work(x)
            except asyncio.CancelledError:
                await work("undo")
                raise
            finally:
                await work("clean up")
            try:
                x = x + 1
            except:
                x = 0
            task = asyncio.create_task(work(1))
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            try:
                await task
            except asyncio.CancelledError:
                pass
            with contextlib.suppress(ValueError):
                await work(1)
    """,
    "state of the run's own": """
        LIMITS = {"a": 3}
        box = contextlib.ExitStack()

        @workflow
        async def wf(x):
            seen, by_name = [], {}
            count = LIMITS["a"]

            async def branch(y):
                nonlocal count
                count += 1
                seen.append(y)
                by_name[y] = LIMITS.get(y)

            await parallel(branch(1), branch(2))
            x.total = count
            x.items.append(1)
            queue = asyncio.Queue()
            await queue.put(1)
            return seen
    """,
    "calls that are awaited elsewhere": """
        async def helper(x): return await work(x)

        @workflow
        async def wf(xs):
            one = work(1)
            two = asyncio.create_task(helper(2))
            await asyncio.gather(one, two, *[work(x) for x in xs])
            async with asyncio.TaskGroup() as group:
                group.create_task(work(3))
            keyed = work.with_options(key="a", timeout="3s")
            calls = [keyed(4)]
            asyncio.gather(*calls)
            await label.aio(1)
            return await parallel(label.aio(2), work(3))

        @workflow
        def plain(x):
            perdure.sync.sleep(3)
            work.sync(1)
            label(2)
            return perdure.sync.parallel(lambda: work.sync(1), lambda: label(2))
    """,
    "names of the same sound": """
        class clock:
            @staticmethod
            def time(): return 3

        def open(x): return x

        @workflow
        async def wf(time, hash, random):
            id = 3
            return time.time(), random.choice(), hash(3), open(3), clock.time(), id
    """,
    "loops that wait for something else": """
        @workflow
        async def wf(x):
            while not await work(x):
                await sleep("5s")
            while True:
                await sleep("1h")
                x.days += 1
            while x.pending:
                await x.pending.pop()
                await asyncio.sleep(0)
    """,
    "comments that let it stay": """
        @workflow
        async def wf(x):
            time.time()  # perdure: ignore[clock]
            time.time(), random.random()  # perdure: ignore[clock, random]
            time.time()  # perdure: ignore
    """,
    "patches and versions": """
        @workflow(version="2", upcast=dict)
        async def wf(x):
            if perdure.patched("new"):
                return await work(x)
            return await label.aio(x)
    """,
}
