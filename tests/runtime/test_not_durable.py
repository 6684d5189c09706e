"""What cannot be recorded is refused where it is called, and the run fails even if its code swallows that."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

import anyio.to_thread
import pytest

from perdure import step, workflow
from perdure.errors import Deadlock, NotDurable
from tests.runtime.harness import lab, trace, work

CASES = []


def case(*, swallow=True):
    """A coroutine function that must not be durable; ``swallow``: also when ``except Exception`` catches it."""

    def decorate(function):
        CASES.append((function, swallow))
        return function

    return decorate


@case()
async def to_thread():
    await asyncio.to_thread(print)


@case()
async def an_executor():
    await asyncio.get_running_loop().run_in_executor(None, print)


@case()
async def a_connection():
    await asyncio.open_connection("127.0.0.1", 1)


@case()
async def a_server():
    await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)


@case()
async def a_subprocess():
    await asyncio.create_subprocess_exec("true")


@case()
async def a_socket():
    with socket.socket() as one:
        one.setblocking(False)
        await asyncio.get_running_loop().sock_recv(one, 1)


@case()
async def a_name_lookup():
    await asyncio.get_running_loop().getaddrinfo("localhost", 1)


@case()
async def a_reader():
    asyncio.get_running_loop().add_reader(0, print)


@case()
async def a_nested_run():
    asyncio.get_running_loop().run_until_complete(asyncio.get_running_loop().create_future())


@case()
async def a_task_factory():
    asyncio.get_running_loop().set_task_factory(None)


@case()
async def unordered_coroutines():
    for future in asyncio.as_completed([work.aio("a"), anyio_sleep()]):
        await future


async def anyio_sleep():
    await anyio.sleep(0.001)


@case()
async def an_anyio_connection():
    await anyio.connect_tcp("127.0.0.1", 1)


@case()
async def a_thread_of_anyio():
    await anyio.to_thread.run_sync(print)


HOST = {}


@case(swallow=False)
async def a_future_of_the_host():
    await HOST["future"]


@case(swallow=False)
async def a_lock_of_the_host():
    async with HOST["lock"]:
        pass


@workflow
async def offending(which: int) -> str:
    await CASES[which][0]()
    return "went through"


@workflow
async def swallowing(which: int) -> str:
    noted = trace()
    try:
        await CASES[which][0]()
    except Exception as error:
        noted.append(error)
    return "went through"


@pytest.mark.parametrize("which", range(len(CASES)), ids=[function.__name__ for function, _ in CASES])
def test_it_is_refused_with_advice(which, tmp_path):
    async def main():
        HOST["future"], HOST["lock"] = asyncio.get_running_loop().create_future(), asyncio.Lock()
        await HOST["lock"].acquire()
        contender = asyncio.create_task(HOST["lock"].acquire())
        await asyncio.sleep(0)  # now the lock belongs to the host's loop
        async with lab(tmp_path, [offending, swallowing]) as here:
            with pytest.raises(NotDurable) as caught:
                await here.engine.run(offending, which, run_id="offends")
            assert "step" in caught.value.advice
            failure = (await here.engine.get("offends").view()).failure
            if CASES[which][0] is not an_anyio_connection:  # that is called in a task of anyio's own
                assert f"in {CASES[which][0].__name__}" in failure.decode(), "the place is not named"
            if CASES[which][1]:
                with pytest.raises(NotDurable):
                    await here.engine.run(swallowing, which, run_id="swallows")
        contender.cancel()
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.main_thread():
                await asyncio.to_thread(thread.join, 10)
                assert not thread.is_alive(), f"{thread.name} keeps the process from ending"

    asyncio.run(main())


# -- touched from outside


@workflow
async def touched_by_a_thread() -> None:
    event = asyncio.Event()
    thread = threading.Thread(target=event.set)
    waiter = asyncio.create_task(event.wait())
    await work("a")
    thread.start()
    thread.join()
    await waiter


SHARED = {}


@step
async def touches() -> None:
    with contextlib.suppress(NotDurable):
        SHARED["event"].set()


@workflow
async def touched_by_a_step() -> None:
    event = SHARED["event"] = asyncio.Event()
    waiter = asyncio.create_task(event.wait())
    await touches()
    await waiter


@pytest.mark.parametrize("made", [touched_by_a_step, touched_by_a_thread], ids=lambda made: made.name)
def test_nobody_else_can_wake_a_workflow(made, tmp_path, recwarn, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    async def main():
        async with lab(tmp_path, [made]) as here:
            with pytest.raises(NotDurable, match="outside the workflow"):
                await here.engine.run(made)

    asyncio.run(main())


LOCKS = {}


@workflow
async def takes_a_shared_lock(n: int) -> None:
    lock = LOCKS.setdefault("lock", asyncio.Lock())
    async with lock:
        await work("inside", 20)


def test_a_contended_lock_cannot_be_shared_between_runs(tmp_path):
    LOCKS.clear()

    async def main():
        async with lab(tmp_path, [takes_a_shared_lock]) as here:
            several = [here.engine.run(takes_a_shared_lock, n) for n in range(3)]
            results = await asyncio.gather(*several, return_exceptions=True)
            assert any(isinstance(result, NotDurable) for result in results), results
            assert "neither between runs" in next(r for r in results if isinstance(r, NotDurable)).advice

    asyncio.run(main())


# -- deadlocks


@workflow
async def waits_for_nothing() -> None:
    await asyncio.gather(work("a"), asyncio.Event().wait())


def test_a_deadlock_names_the_places(tmp_path):
    async def main():
        async with lab(tmp_path, [waits_for_nothing]) as here:
            with pytest.raises(Deadlock) as caught:
                await here.engine.run(waits_for_nothing)
            assert "locks.py" in str(caught.value)
            assert "test_not_durable.py" in str(caught.value)
            assert "waits_for_nothing" in str(caught.value)

    asyncio.run(main())


@workflow
async def waits_for_an_event() -> None:
    await asyncio.Event().wait()


def test_a_deadlock_names_the_line_of_the_workflow_not_that_of_asyncio(tmp_path):
    async def main():
        async with lab(tmp_path, [waits_for_an_event]) as here:
            with pytest.raises(Deadlock) as caught:
                await here.engine.run(waits_for_an_event)
            line = waits_for_an_event.fn.__code__.co_firstlineno + 2
            assert f"test_not_durable.py:{line} in waits_for_an_event, in Event.wait" in str(caught.value)

    asyncio.run(main())
