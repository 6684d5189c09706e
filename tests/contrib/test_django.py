"""A Django project: runs begin with transactions, views ask for them, and a worker that is killed loses nothing."""

from __future__ import annotations

import json
import signal

import pytest

SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.contrib.django_shop.settings"}


@pytest.mark.crash
def test_what_a_view_enqueues_is_executed_by_workers_one_of_which_is_killed(processes):
    server = processes.start("-W", "ignore", "-m", "tests.contrib.django_shop", **SETTINGS)
    assert server.wait(timeout=30) == 0, processes.said()
    asked, refused, shown = processes.said().splitlines()
    # What is rolled back, or was never committed, never was.
    assert json.loads(asked) == [{"run": "a"}, {"run": ""}]
    assert refused == "no transaction"
    assert json.loads(shown) == {"runs": [["a", "pending"]]}

    worker = ["-m", "django", "perdure_worker"]
    first = processes.start(*worker, **SETTINGS)
    processes.until(lambda: "pack a" in processes.effects(), first)
    first.kill()
    first.wait()
    second = processes.start(*worker, **SETTINGS)
    processes.until(lambda: processes.effects().count("pack a") == 2, second)
    processes.open("pack")
    told = processes.start("-m", "django", "perdure", "runs", "--json", **SETTINGS)
    assert told.wait(timeout=30) == 0, processes.said()
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=30) == 0, processes.said()
    assert processes.effects() == ["charge a", "pack a", "pack a"]
    assert '"a"' in processes.said()
    assert "Traceback" not in processes.said()


@pytest.mark.only("sqlite")
def test_a_wrong_setting_is_told(processes, tmp_path):
    (tmp_path / "wrong.py").write_text(
        "from tests.contrib.django_shop.settings import *\nPERDURE = {'store': 'x.db'}\n", encoding="utf-8"
    )
    told = processes.start("-m", "django", "perdure_worker", DJANGO_SETTINGS_MODULE="wrong")
    assert told.wait(timeout=30) != 0
    assert "PERDURE has store; it may have STORE" in processes.said()
