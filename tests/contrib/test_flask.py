"""The Flask application of the documentation, in processes that a server forks: each has a client of its own."""

from __future__ import annotations

import pytest

from tests.docs.pages import fences
from tests.house import tree

PAGE = tree.ROOT / "docs/how-to/use-with-flask.md"
SERVER = """
import os, sys, threading
import shop

def serve(order):
    client = shop.app.test_client()
    assert client.post(f"/orders/{order}").status_code == 202
    assert client.post(f"/orders/{order}").json == {"run": f"order-{order}"}

def workers(orders):
    children = []
    for order in orders:
        child = os.fork()
        if child == 0:
            threads = [threading.Thread(target=serve, args=(order,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            print(f"served {order}", flush=True)
            sys.exit()
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

assert workers(["1", "2"]) == [0, 0]
serve("3")
assert workers(["4"]) == [0]
serve("5")
print(*sorted(run.run_id for run in shop.engine().runs()))
"""


@pytest.mark.crash
@pytest.mark.only("sqlite")
def test_each_process_that_a_server_forks_opens_a_client_at_its_first_request(processes, tmp_path):
    (program,) = (fence.text for fence in fences(PAGE) if fence.title == "shop.py")
    (tmp_path / "shop.py").write_text(program, encoding="utf-8")
    # Python warns of forking with threads; that a server does it is what this is about.
    server = processes.start("-W", "ignore::DeprecationWarning", "-c", SERVER)
    assert server.wait(timeout=30) == 0, processes.said()
    *served, runs = processes.said().splitlines()
    assert sorted(served) == ["served 1", "served 2", "served 4"]
    assert runs == "order-1 order-2 order-3 order-4 order-5"
