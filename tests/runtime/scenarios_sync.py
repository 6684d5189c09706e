"""Sync workflows: branches on threads of which one moves at a time."""

from __future__ import annotations

import contextvars

import perdure
from perdure.sync import parallel, sleep, submit, wait
from tests.runtime.harness import Scenarios, blocking, cancel_me, fail, trace, work

SCENARIOS = Scenarios()
scenario = SCENARIOS.add


@scenario
def sequence():
    """Steps of both colours, sleeps short and long, failures."""
    noted = trace()
    noted.append(blocking("a"))
    noted.append(work.sync("b"))
    sleep("20ms")
    try:
        fail.sync("c")
    except ValueError as error:
        noted.append(str(error))
    sleep(3)
    noted.append(blocking("d"))
    noted.append(str(perdure.uuid4()))
    return work.sync("e")


@scenario
def branches():
    """parallel, and a list the branches share."""
    noted = trace()
    items = list(range(9))

    def worker(n):
        while items:
            item = items.pop(0)
            noted.append((n, item, work.sync(str(item))))
            if item == 4:
                sleep(2)
        return n

    noted.append(parallel(*[lambda n=n: worker(n) for n in range(3)]))
    noted.append(parallel(lambda: blocking("x"), lambda: parallel(lambda: work.sync("y"), lambda: work.sync("z"))))
    try:
        parallel(lambda: work.sync("v", 50), lambda: fail.sync("w"), lambda: worker(0))
    except ValueError as error:
        noted.append(str(error))


@scenario
def submitted():
    """submit and wait: whichever comes first."""
    noted = trace()

    def branch(n):
        return work.sync(f"{n} a") + work.sync(f"{n} b")

    several = [submit(lambda n=n: branch(n)) for n in range(5)]
    left = several
    while left:
        done, left = wait(left, return_when="FIRST_COMPLETED")
        noted.append([several.index(one) for one in done])
        noted.append(work.sync("between"))
    noted.append([one.result() for one in several])
    slow = submit(lambda: branch(9))
    done, left = wait([slow], timeout=0.01)
    noted.append(len(done))
    slow.cancel()
    wait([slow])
    noted.append(slow.done())


variable = contextvars.ContextVar("variable", default="unset")


@perdure.step
def reads() -> str:
    return variable.get()


@scenario
def contexts():
    """Context variables flow into branches and steps, and not back."""
    noted = trace()
    variable.set("root")

    def branch(n):
        noted.append(variable.get())
        variable.set(f"branch {n}")
        noted.append(reads())

    parallel(lambda: branch(1), lambda: branch(2))
    noted.append((variable.get(), reads()))


@scenario
def cleaned():
    """The engine cancels; what cleans up is recorded."""
    noted = trace()

    def branch(n):
        try:
            sleep(3600)
        finally:
            noted.append(work.sync(f"cleaned {n}"))

    try:
        parallel(lambda: branch(1), lambda: branch(2), lambda: (work.sync("wait", 20), cancel_me.sync()))
    finally:
        noted.append(blocking("root cleaned"))
