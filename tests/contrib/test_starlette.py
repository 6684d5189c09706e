"""An engine in an ASGI application: opened and closed with it, and its errors as problem responses."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import urllib.error
import urllib.request

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from perdure import Engine, errors
from perdure.contrib.starlette import STATUSES, engine_of, handle_errors, lifespan, problem
from perdure.errors import DefinitionError, EngineNotOpen
from tests.contrib.web_shop import fulfil, make


@pytest.fixture
def engine(store, processes):
    del processes  # which say where effects go
    return Engine(store, workflows=[fulfil])


def test_a_client_enqueues_and_reads_and_a_worker_in_the_same_process_executes(engine, processes):
    with TestClient(make(engine)) as client:
        assert client.post("/orders", json={"id": "a"}).json() == "a"
        assert client.get("/orders/a").json() == "pending"
    processes.open("pack")
    with TestClient(make(engine, worker=True)) as client:
        assert client.get("/orders/a/result").json() == "payment-a parcel"
    effects = processes.effects()
    assert (effects[0], effects[-1]) == ("mine opens", "mine closes")
    assert sorted(effects[3:-1]) == sorted(["charge a", "pack a", "packed a", "ship"])
    # Once the application is down, the engine is closed.
    with pytest.raises(EngineNotOpen):
        engine.get("a")


def test_errors_of_perdures_are_problem_responses_that_show_nothing_that_is_recorded(engine):
    with TestClient(make(engine), raise_server_exceptions=False) as client:
        client.post("/orders", json={"id": "a", "amount": 4711})
        taken = client.post("/orders", json={"id": "a", "amount": 4712})
        missing = client.get("/orders/b")
        fault = client.get("/fault")
    assert (taken.status_code, taken.headers["content-type"]) == (409, "application/problem+json")
    told = taken.json()
    assert (told["type"], told["title"], told["status"], told["code"], told["run_id"]) == (
        "about:blank", "Conflict", 409, "run_conflict", "a",
    )  # fmt: skip
    assert "another run id" in told["advice"]
    assert "471" not in taken.text
    assert (missing.status_code, missing.json()["code"]) == (404, "run_not_found")
    # What the program has got wrong is no caller's business.
    assert (fault.status_code, fault.text) == (500, "Internal Server Error")


def test_a_store_that_is_away_is_told_by_its_code_only():
    answer = problem(errors.StoreGone("no file /srv/secret.db", advice="put /srv/secret.db back", store="secret.db"))
    assert answer is not None
    assert (answer.status_code, answer.headers["retry-after"], b"secret" in answer.body) == (503, "1", False)
    assert json.loads(answer.body)["code"] == "store_gone"
    assert problem(errors.StoreCorrupt("damaged")) is None
    assert {status // 100 for status in STATUSES.values()} == {4, 5}


def test_an_application_without_the_lifespan_is_told_so():
    async def get(request):
        return engine_of(request)

    app = Starlette(routes=[Route("/", get)])
    handle_errors(app)
    with TestClient(app) as client:
        assert client.get("/").status_code == 503
    with pytest.raises(DefinitionError, match="str was given"):
        lifespan("orders.db")


class Served:
    """The application in a process of its own, under uvicorn."""

    def __init__(self, processes, **environ: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.processes = processes
        command = ["-m", "uvicorn", "tests.contrib.web_shop:app", "--port", self.port, "--log-level", "warning"]
        self.child = processes.start(*command, **environ)
        processes.until(self._answers, self.child)

    def _answers(self) -> bool:
        try:
            self.ask("/docs")
        except urllib.error.URLError:
            return False
        return True

    def ask(self, path: str, body: object = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - as above
            return answer.read()


@pytest.mark.crash
@pytest.mark.only("sqlite")
def test_a_killed_server_goes_on_and_one_that_is_asked_to_stop_lets_steps_finish(processes, store):
    first = Served(processes)
    first.ask("/orders", {"id": "a"})
    processes.until(lambda: {"charge a", "pack a"} <= set(processes.effects()) and recorded(store) >= 1, first.child)
    first.child.kill()
    first.child.wait()

    second = Served(processes)
    processes.until(lambda: processes.effects().count("pack a") == 2, second.child)
    second.child.send_signal(signal.SIGTERM)
    processes.until(lambda: "mine closes" in processes.effects(), second.child)
    processes.open("pack")  # the step that is under way may finish, while nothing is served any more
    assert second.child.wait(timeout=20) in {0, -signal.SIGTERM}
    assert processes.effects().count("packed a") == 1

    third = Served(processes)
    assert json.loads(third.ask("/orders/a/result")) == "payment-a parcel"
    third.child.send_signal(signal.SIGTERM)
    third.child.wait(timeout=20)
    effects = processes.effects()
    assert [effects.count(one) for one in ("charge a", "pack a", "packed a", "ship")] == [1, 2, 1, 1]
    assert "Traceback" not in processes.said()


def recorded(store: str) -> int:
    """How many steps of the run have an outcome."""

    async def read() -> int:
        async with Engine(store).client() as engine:
            return len([event async for event in engine.get("a").events() if event.took is not None])

    return asyncio.run(read())
