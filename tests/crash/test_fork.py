"""O25: processes forked from one that has an open engine neither harm its store nor take part in its life."""

from __future__ import annotations

import asyncio
import os
import traceback
from typing import Any

import pytest

from perdure import Engine, errors
from perdure.model.records import Status
from perdure.store.open import is_postgres
from tests.crash import apps
from tests.crash.procs import Crew, ended, exit_now, make_engine

pytestmark = pytest.mark.crash

CHILDREN = 20
ROUNDS = 200 if os.environ.get("PERDURE_STORM") else 5


def intact(crew: Crew) -> None:
    if is_postgres(crew.store):
        return
    process = crew.start(_check_integrity, crew)
    assert ended(process) == 0
    assert crew.ledger.entries("integrity")[-1].key == "ok"


def _check_integrity(crew: Any) -> None:
    import apsw

    connection = apsw.Connection(crew.store)
    crew.ledger.write("integrity", key=str(connection.execute("PRAGMA integrity_check").get))


@pytest.mark.slow
@pytest.mark.timeout(ROUNDS + 100)
def test_children_forked_beside_an_engine_use_the_store_by_themselves(crew: Crew) -> None:
    process = crew.start(_parent, crew)
    assert ended(process, timeout=ROUNDS + 60) == 0
    said = {entry.run: entry.key for entry in crew.ledger.entries("child")}
    assert len(said) == CHILDREN * ROUNDS
    # Forked in the middle of a slow commit a child is refused the store, in so many words.
    refused = {run_id for run_id, what in said.items() if what == "StoreUnsafe, then refused: in use"}
    assert {what for run_id, what in said.items() if run_id not in refused} == {"StoreUnsafe, then re-opened"}, said
    assert len(refused) < CHILDREN * ROUNDS / 4
    runs = [f"{n}-{m}" for n in range(ROUNDS) for m in range(CHILDREN) if f"{n}-{m}" not in refused]
    crew.worker()
    rows = crew.all_ended(*runs, *(f"parent-{n}-{m}" for n in range(ROUNDS) for m in range(5)))
    assert {row.status for row in rows.values()} == {Status.COMPLETED}
    assert not any("reclaimed" in kind for kind in crew.kinds("parent-0-0"))
    intact(crew)


def _parent(crew: Any) -> None:
    async def main() -> None:
        async with make_engine(crew.store, crew.ledger, lease=30.0) as engine:
            for turn in range(ROUNDS):
                handles = [await engine.enqueue(apps.five, 0, run_id=f"parent-{turn}-{n}") for n in range(5)]
                pids = []
                for n in range(CHILDREN):
                    pid = os.fork()
                    if pid == 0:
                        asyncio._set_running_loop(None)
                        _child(crew, engine, f"{turn}-{n}")
                    pids.append(pid)
                results = await asyncio.gather(*(handle.result() for handle in handles))
                assert results == [5] * 5
                for pid in pids:
                    _, status = await asyncio.to_thread(os.waitpid, pid, 0)
                    assert status == 0, status

    asyncio.run(main())


def _child(crew: Any, inherited: Engine, run_id: str) -> None:
    """Try the inherited engine, which must be refused, then open the store anew and start a run."""
    try:
        store: Any = inherited._store
        try:
            store.get_run("parent-0-0")
            said = "no error"
        except errors.StoreUnsafe:
            said = "StoreUnsafe"

        async def enqueue() -> None:
            async with Engine(crew.store).client() as client:
                await client.enqueue(apps.short, 1, run_id=run_id)

        try:
            asyncio.new_event_loop().run_until_complete(enqueue())
            said += ", then re-opened"
        except errors.StoreUnsafe as error:
            said += f", then refused: {'in use' if 'forked while the store was in use' in str(error) else error}"
        store.close()
        crew.ledger.write("child", run=run_id, key=said)
    except BaseException:  # noqa: BLE001 - a child must not go on as its parent
        crew.ledger.write("child", run=run_id, key=traceback.format_exc())
    exit_now()


def test_a_process_forked_in_a_step_does_not_keep_its_worker_alive_nor_end_it(crew: Crew) -> None:
    worker = crew.worker(lease=30.0)
    crew.enqueue("forking", 1, "r")
    child = int(crew.ledger.until_said("forked")[0].key)
    try:
        assert crew.outcome("r") > 0
        crew.enqueue("gated", 1, "orphan")
        crew.ledger.until_said("begin", run="orphan", key="wait_at_gate#1")
        worker.kill()
        ended(worker)
        crew.worker()  # the child lives on, with the dead one's descriptors
        crew.ledger.until_said("begin", 2, run="orphan", key="wait_at_gate#1")
        crew.ledger.open_gate()
        assert crew.outcome("orphan") == 2
        intact(crew)
    finally:
        os.kill(child, 9)
