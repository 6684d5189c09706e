"""A workflow of two steps. Run it twice: the second time nothing is done again.

$ python examples/01_hello.py Ada
"""

from __future__ import annotations

import sys

import perdure
from perdure import step, workflow


@step
async def greet(name: str) -> str:
    print(f"(greeting {name})")
    return f"Hello, {name}!"


@step
def shout(text: str) -> str:  # a plain function is a step too; it runs on a thread
    print("(shouting)")
    return text.upper()


@workflow
async def hello(name: str) -> str:
    greeting = await greet(name)
    return await shout.aio(greeting)


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "world"
    print(perdure.run(hello, name, run_id=f"hello-{name}", store="hello.db"))
