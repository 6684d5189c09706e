"""What type checkers say of the test kit: results have their types, and a fake has to give the step's."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

from perdure import Signal, step, workflow
from perdure import sync as blocking
from perdure.replaying import Replayed
from perdure.testing import Env, EnvFactory, EnvHandle, Ran, SyncEnv, env, replay_history

approved = Signal[bool]("approved")


@step
async def charge(amount: int) -> str:
    return f"payment of {amount}"


@step
def label(amount: int) -> bytes:
    return bytes(amount)


class Desk:
    """A step that is a method."""

    @step
    async def greet(self, whom: str) -> str:
        return whom


@workflow
async def fulfil(amount: int) -> str:
    return await charge(amount)


@workflow
def tidy() -> int:
    return 1


async def in_async_tests() -> None:
    async with env(workflows=[fulfil, tidy], tools=object()) as kit:
        assert_type(kit, Env)
        assert_type(await kit.run(fulfil, 5, signals=[(approved, True)]), str)
        assert_type(await kit.run(tidy, run_id="r"), int)
        assert_type(await kit.start(fulfil, 5, delay="1h"), EnvHandle[str])
        assert_type(await (await kit.start(tidy)).result(), int)
        assert_type(kit.ran(charge), Ran)
        assert_type(kit.ran(charge).count, int)
        await kit.run(fulfil)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        await kit.run(fulfil, "5")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
        kit.override(charge, "payment")
        kit.override(charge, lambda _amount: "payment")
        kit.override(charge, charge.fn)
        kit.override(charge, ConnectionError)
        kit.override(charge, ConnectionError("no line"))
        kit.override(label, b"")
        kit.override(Desk.greet, lambda _self, whom: f"{whom}")
        with kit.override(Desk().greet, "hello"):
            await kit.advance("24h")
        kit.override(charge, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        kit.override(charge, _wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        kit.override(fulfil, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def _wrong(amount: int) -> int:
    return amount


def in_plain_tests(perdure_env: EnvFactory, perdure_history: Path) -> None:
    with perdure_env(workflows=[fulfil]) as kit:
        assert_type(kit, SyncEnv)
        assert_type(kit.run(fulfil, 5), str)
        assert_type(kit.start(fulfil, 5), blocking.Handle[str])
        assert_type(kit.start(fulfil, 5).result(), str)
        assert_type(kit.engine, blocking.Engine)
        kit.override(label, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(replay_history(perdure_history, fulfil), Replayed)
    perdure_env(store="x.db")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
