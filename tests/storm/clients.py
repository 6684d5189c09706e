"""Clients of a storm: processes that ask for what the plan says, and note in the ledger what they were answered.

One that was killed is followed by another, which begins with the first question that was not seen to be answered.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from perdure import Engine, errors
from perdure.model.records import Status
from tests.crash.ledger import Entry, Ledger
from tests.storm.plan import EVERY, Ask, Plan
from tests.storm.workflows import BY_NAME, WORKFLOWS, baton, ticking, word

ACTS = frozenset({"kill", "stop", "fill_disk", "kill_client", "end_sessions", "crash"})


def said_of(ask: Ask) -> str:
    """What an ask is called in the ledger."""
    return f"{ask.what} {ask.kind} {ask.n}"


def message(ask: Ask) -> str:
    """What a sender says."""
    return f"{ask.kind} {ask.n}"


def ask_everything(store: str, ledger: Ledger, plan: Plan, name: str) -> None:
    """Be a client until all is answered."""
    asyncio.run(Client(ledger, plan, name).live(store))


class Client:
    """One client in one process."""

    def __init__(self, ledger: Ledger, plan: Plan, name: str) -> None:
        self.ledger, self.plan, self.name = ledger, plan, name
        self.acts = 0
        self._seen = 0

    async def live(self, store: str) -> None:
        done = {(entry.run, entry.key) for entry in self.ledger.entries("answered") if entry.idem == self.name}
        asks = [ask for ask in self.plan.asks[self.name] if (ask.run, said_of(ask)) not in done]
        while True:
            try:
                async with Engine(store, workflows=WORKFLOWS).client() as client:
                    await self._ask_all(client, asks)
                break
            except errors.StoreError:
                await asyncio.sleep(0.05)
        self.ledger.write("content", key=self.name)

    async def _ask_all(self, client: Engine, asks: list[Ask]) -> None:
        while asks:
            ask = asks[0]
            await self._until(ask.at)
            # Those that are started at one time are started together, in one transaction.
            several = [one for one in asks if one.what == "start" and one.at == ask.at and one.kind == ask.kind]
            if ask.what == "start" and len(several) > 1:
                await self._insist(several, lambda several=several: self.start_many(client, several))
            else:
                several = [ask]
                await self._insist(several, lambda ask=ask: getattr(self, ask.what)(client, ask))
            asks[:] = [one for one in asks if one not in several]

    async def _until(self, acts: int) -> None:
        while self.acts < acts:
            news = self.ledger.since(self._seen)
            self.acts += sum(entry.what in ACTS for entry in news)
            self._seen += len(news)
            await asyncio.sleep(0.03)

    async def _insist(self, asks: list[Ask], ask: Any) -> None:
        for one in asks:
            self.ledger.write("asked", one.run, said_of(one), idem=self.name)
        while True:
            try:
                answer = await ask()
                break
            except (errors.StoreError, errors.RunNotFound, errors.StepNotFound, NotYetError):
                await asyncio.sleep(0.03)
            except errors.WrongState:
                answer = "refused"
                break
        for one in asks:
            self.ledger.write(f"answered {answer}", one.run, said_of(one), idem=self.name)
            self.ledger.write("answered", one.run, said_of(one), idem=self.name)

    # -- what can be asked; each may be asked again

    async def start(self, client: Engine, ask: Ask) -> str:
        return (await client.enqueue(BY_NAME[ask.kind], given(ask), run_id=ask.run)).run_id

    async def start_many(self, client: Engine, asks: list[Ask]) -> str:
        workflow = BY_NAME[asks[0].kind]
        await client.enqueue_many(workflow, [given(ask) for ask in asks], run_ids=[ask.run for ask in asks])
        return "many"

    async def start_once(self, client: Engine, ask: Ask) -> str:
        return (await client.enqueue(BY_NAME[ask.kind], given(ask), idempotency_key=ask.run)).run_id

    async def say(self, client: Engine, ask: Ask) -> str:
        handle = client.get(ask.run)
        sent = await handle.signal(word, message(ask), idempotency_key=message(ask))
        for before in self._said_before(ask):  # consumed or not: as one does who has not heard that it arrived
            await handle.signal(word, message(before), idempotency_key=message(before))
        return str(sent)

    async def pass_on(self, client: Engine, ask: Ask) -> str:
        handle = client.get(ask.run)
        sent = await handle.signal(baton, ask.n, idempotency_key=str(ask.n))
        for before in self._said_before(ask):
            await handle.signal(baton, before.n, idempotency_key=str(before.n))
        return str(sent)

    def _said_before(self, ask: Ask) -> list[Ask]:
        asks = [one for one in self.plan.asks[self.name] if (one.what, one.run) == (ask.what, ask.run)]
        return asks[: asks.index(ask)]

    async def cancel(self, client: Engine, ask: Ask) -> str:
        await client.get(ask.run).cancel("the storm's")
        return "cancelled"

    async def pause(self, client: Engine, ask: Ask) -> str:
        await client.get(ask.run).pause("the storm's")
        return "paused"

    async def let_go(self, client: Engine, ask: Ask) -> str:
        """Have a run that was paused go on, until it has ended: a pause may come late."""
        row = await client.get(ask.run).row()
        if row.status is Status.PAUSED:
            with suppress(errors.WrongState):
                await client.get(ask.run).resume()
        if not row.status.terminal:
            raise NotYetError
        return row.status.word

    async def fork(self, client: Engine, ask: Ask) -> str:
        forked = await client.get(ask.run).fork(ask.kind, run_id=fork_id(ask), keep_keys=keeps_keys(ask))
        return forked.run_id

    async def schedule(self, client: Engine, ask: Ask) -> str:
        await client.schedule(ticking, ask.n, every=EVERY, key=ask.run, overlap="allow")
        return "defined"

    async def unschedule(self, client: Engine, ask: Ask) -> str:
        await client.get_schedule(ask.run).pause()
        return "paused"


class NotYetError(Exception):
    """What is asked for is still to come."""


def given(ask: Ask) -> Any:
    """The input of a run that is asked for."""
    return [] if ask.kind == "relay" else ask.n


def fork_id(ask: Ask) -> str:
    """The id of a fork that is asked for."""
    return f"{ask.run}-fork"


def keeps_keys(ask: Ask) -> bool:
    """Whether it is to keep its origin's keys."""
    return ask.n % 2 == 1


def answers(entries: list[Entry]) -> dict[tuple[str, str], set[str]]:
    """What was answered, by run and ask."""
    found: dict[tuple[str, str], set[str]] = {}
    for entry in entries:
        if entry.what.startswith("answered "):
            found.setdefault((entry.run, entry.key), set()).add(entry.what.removeprefix("answered "))
    return found
