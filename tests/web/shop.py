"""Workflows whose runs the dashboard shows: what they are given and what they say is as nasty as it can be."""

from __future__ import annotations

import asyncio
import os
from datetime import date, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, SecretStr

from perdure import INJECTED, Engine, Retry, Signal, StepContext, parallel, secret, sleep, step, workflow

EVIL = """<script>alert(1)</script><img src=x onerror=alert(2)>"'`{{7*7}}</pre></textarea>&amp;"""

EVIL_NAME = """<img src=x onerror=alert(4)>"'`{{7*7}}&amp;"""
"""The same where a name may not have all of that."""


class Card(BaseModel):
    number: str = "4111 1111"


class Order(BaseModel):
    id: str = "1"
    note: str = EVIL
    password: str = "hunter2"  # noqa: S105 - it is to be found nowhere
    card: Card = Card()


class Decision(BaseModel):
    ok: bool
    by: str = Field(description="Who decides")
    level: int = 1


decision = Signal[Decision]("decision")
approved = Signal[bool]("approved")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    number: int = Field(gt=0)


class Everything(BaseModel):
    """An input with a field of each kind."""

    name: str
    count: int = Field(description="How many")
    ratio: float | None
    urgent: bool = False
    colour: Colour = Colour.BLUE
    at: date
    address: Address
    lines: list[str]
    note: str = "none"


class Rejected(Exception):
    pass


@step
async def charge(order: Order, *, ctx: StepContext[object] = INJECTED) -> dict[str, object]:
    ctx.artifact(EVIL + ".html", b"<script>alert(3)</script>")
    ctx.emit(EVIL, "words")
    ctx.progress({"note": EVIL})
    return {"card": {"number": "4111 1111"}, "token": "s3cret", "note": order.note}


@step(retry=Retry(max_attempts=2, initial_delay="1ms"))
async def reject(order: Order) -> None:
    raise Rejected(f"{order.note} for {order.password}")


@step
async def ship(what: str) -> str:
    return what


@step
async def wait_for_gate(name: str) -> str:
    """Do what takes until somebody says so; leave a trace each time it begins."""
    folder = Path(os.environ["GATES"])
    with (folder / "effects").open("a") as file:
        file.write(f"{name}\n")
    while not (folder / name).exists():  # noqa: ASYNC110 - another process says when
        await asyncio.sleep(0.01)
    return name


@workflow
async def sell(order: Order) -> str:
    await charge(order)
    return await ship("parcel")


@workflow
async def fail(order: Order) -> None:
    await charge(order)
    await reject(order)


@workflow
async def ask(order: Order) -> str:
    await charge(order)
    found = await decision.wait(timeout="24h")
    return found.by


@workflow
async def nap(order: Order) -> None:
    await sleep(timedelta(days=14))


@workflow
async def family(order: Order) -> str:
    return await sell(order)


@workflow
async def two(name: str) -> list[str]:
    return list(await parallel(ship(f"{name} a"), wait_for_gate(name)))


@workflow(name=EVIL_NAME)
async def evil(order: Order) -> None:
    """Called as nobody would."""


WORKFLOWS = [sell, fail, ask, nap, family, two]
engine = Engine(workflows=WORKFLOWS)


@workflow
async def many(number: int) -> None:
    for n in range(number):
        await ship(str(n))


@workflow
async def everything(value: Everything) -> Everything:
    """Give back what it is given."""
    return value


@workflow
async def echo(value: object) -> object:
    return value


class Login(BaseModel):
    """An input with secrets in all kinds of places."""

    name: str = "Ada"
    password: SecretStr = SecretStr("hunter2 a")
    pins: list[Annotated[int, secret]] = [424242]
    token: Annotated[str, secret] = "hunter2 b"  # noqa: S105
    size: int = 0


@step(retry=Retry(max_attempts=2, initial_delay="1ms"))
async def sign_in(
    login: Login, token: Annotated[str, secret], *, ctx: StepContext[object] = INJECTED
) -> Annotated[dict[str, str], secret]:
    ctx.progress(login)
    ctx.emit(login, "words")
    if ctx.attempt == 1:
        raise Rejected("not yet")
    return {"session": "hunter2 c" * (20_000 if login.size else 1)}


passed = Signal[Annotated[str, secret]]("passed")


@workflow
async def inner(login: Login) -> Login:
    return login


@workflow
async def enter(login: Login) -> Annotated[str, secret]:
    await sign_in(login, "hunter2 d" * (200 if login.size else 1))
    await inner(login)
    return await passed.wait()
