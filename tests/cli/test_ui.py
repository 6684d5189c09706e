"""`perdure ui`: where it listens, and what it says if it cannot."""

from __future__ import annotations

import signal
import socket

import httpx
import pytest

from tests.cli.conftest import order

pytestmark = pytest.mark.only("sqlite")


def test_it_serves_the_store_and_ends_at_once_although_a_page_listens(perdure, start):
    perdure(*order())
    child = start("ui", "--port", "0")
    line = child.stderr.readline()
    address = line.split(" is at ")[1].strip()
    assert [one["run_id"] for one in httpx.get(f"{address}api/runs").json()["runs"]] == ["order-1"]
    with httpx.stream("GET", f"{address}live") as listening:
        assert next(listening.iter_lines()) == "retry: 250"
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=5) == 0
    assert "Ctrl-C" in child.stderr.read()


def test_a_port_that_is_taken_is_said_to_be(perdure):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = perdure("ui", "--port", port)
    assert said.exit_code == 2
    assert f"cannot listen on 127.0.0.1, port {port}: Address already in use" in said.stderr
    assert "--port 0" in said.stderr


def test_it_is_not_opened_to_others_without_knowing_them(perdure):
    said = perdure("ui", "--host", "0.0.0.0")  # noqa: S104 - it is refused
    assert said.exit_code == 2
    assert "nobody would know who they are" in said.stderr
    assert "PERDURE_UI_TOKEN" in said.stderr
    assert perdure("ui", "--allow-host", "ops.example.com").exit_code == 2
    assert perdure("ui", "--token", "short").exit_code == 2
