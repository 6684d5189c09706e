"""``perdure replay`` and ``perdure export``: code against log, nothing executed, nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.cli.conftest import SHOP, order, until
from tests.house import tree

pytestmark = pytest.mark.only("sqlite")  # what they are about is not the store

APP = """
from __future__ import annotations
import sys
import perdure
from perdure import parallel, step, workflow

class Odd(Exception):
    pass

@step
async def double(n: int) -> int:
    print("doubling", file=sys.stderr)
    return 2 * n

@step
async def refuse(n: int) -> int:
    raise Odd(n)

@workflow
async def chain(n: int) -> int:
    n = await double(n)
    try:
        await refuse(n)
    except Odd as odd:
        assert odd.args == (n,)
    return await double(n)

if __name__ == "__main__":
    print(perdure.run(chain, 3, run_id="c"))
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A directory with the application and a store in which it was run once, as a script."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "app.py").write_text(APP, encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": str(tree.PACKAGE.parent), "PERDURE_STORE": str(folder / "s.db")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "app.py"],
        cwd=folder,
        env=environ,
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (done.returncode, done.stdout) == (0, "12\n"), done.stderr
    return folder


@pytest.fixture
def app(recorded):
    """Write the application anew, with changes."""

    def write(*changes):
        text = APP
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        (recorded / "app.py").write_text(text, encoding="utf-8")

    write()
    return write


@pytest.fixture
def replay(start, recorded, store, monkeypatch):
    """Replay in a process of its own, and see that nothing was executed and nothing written."""
    monkeypatch.setenv("PERDURE_STORE", str(recorded / "s.db"))

    def replay(*args, cwd=recorded):
        before = (recorded / "s.db").read_bytes()
        child = start("replay", *args, cwd=cwd)
        out, err = child.communicate(timeout=20)
        assert (recorded / "s.db").read_bytes() == before
        assert "doubling" not in err
        assert "Traceback" not in err
        return child.returncode, " ".join(out.split()), err

    return replay


@pytest.mark.usefixtures("app")
class TestScript:
    def test_a_script_is_replayed_by_id_alone_from_anywhere(self, replay, tmp_path):
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        code, out, _ = replay("c", cwd=elsewhere)
        assert (code, "the code arrives at the recorded result: 12" in out) == (0, True)
        assert "3 outcomes replayed, nothing executed" in out

    def test_other_arguments_depart(self, app, replay):
        app(("return await double(n)", "return await double(n + 1)"))
        code, out, _ = replay("c")
        assert (code, "departs at seq 5" in out) == (1, True)
        assert "recorded with other arguments" in out
        assert '{"n":6}' in out.replace(" ", "")

    def test_another_result_departs(self, app, replay):
        app(("return await double(n)", "return 1 + await double(n)"))
        code, out, _ = replay("c", "--json")
        told = json.loads(out)
        assert (code, told["verdict"], told["seq"]) == (1, "departs", 6)
        assert "another result" in told["reason"]

    def test_a_step_more_departs_where_the_log_ends(self, app, replay):
        app(("return await double(n)", "return await double(await double(n))"))
        code, out, _ = replay("c")
        assert code == 1
        assert "the code goes on: it runs double#3" in out

    def test_a_failure_instead_of_the_result_departs(self, app, replay):
        app(("return await double(n)", "return await double(n) // 0"))
        code, out, _ = replay("c")
        assert code == 1
        assert "the log ends as completed, the code now ends as failed with ZeroDivisionError" in out

    def test_a_moved_step_departs(self, app, replay):
        app(("n = await double(n)", "n = await double.with_options(key='first')(n)"))
        code, out, _ = replay("c")
        assert code == 1
        assert "looks like the recorded double#1" in out

    def test_a_step_that_is_gone_is_named_and_departs_not(self, app, replay):
        app(("await refuse(n)", "pass"))
        code, out, _ = replay("c")
        assert code == 0
        assert "no longer asked for: refuse#1" in out

    @pytest.mark.parametrize("how", ["gone", "broken", "renamed", "version"])
    def test_where_there_is_no_code_the_log_is_printed_and_the_exit_code_says_so(self, app, replay, recorded, how):
        if how == "gone":
            (recorded / "app.py").unlink()
        elif how == "broken":
            app(("import perdure", "import nothing_like_that"))
        elif how == "renamed":
            app(("async def chain", "async def links"), ("perdure.run(chain", "perdure.run(links"))
        else:
            app(("@workflow", '@workflow(version="2")'))
        code, out, err = replay("c")
        assert code == 6
        assert "run_completed" in out
        assert err.startswith("perdure: ")
        assert "--app MODULE" in err or "keep the old version" in err

    def test_an_app_can_be_named(self, replay, recorded):
        (recorded / "app.py").rename(recorded / "moved.py")
        assert replay("c")[0] == 6
        code, out, _ = replay("c", "--app", "moved")
        assert (code, "moved.py" in out) == (0, True)
        assert replay("c", "--app", "nothing_like_that")[0] == 2

    def test_a_history_is_replayed_without_a_store(self, perdure, replay, tmp_path, monkeypatch):
        (tmp_path / "c.json").write_text(perdure("export", "c").stdout, encoding="utf-8")
        monkeypatch.setenv("PERDURE_STORE", "nowhere.db")
        code, out, _ = replay("--history", tmp_path / "c.json", cwd=tmp_path)
        assert (code, "the code arrives at the recorded result: 12" in out) == (0, True)

    def test_a_changed_history_is_refused(self, perdure, replay, tmp_path):
        data = json.loads(perdure("export", "c").stdout)
        data["events"][2]["attempt"] = 7
        (tmp_path / "c.json").write_text(json.dumps(data), encoding="utf-8")
        code, _, err = replay("--history", tmp_path / "c.json")
        assert (code, "is not what was written" in err) == (1, True)
        (tmp_path / "c.json").write_text('{"some": "json"}', encoding="utf-8")
        assert replay("--history", tmp_path / "c.json")[0] == 1


@pytest.mark.parametrize("name", ["gathered-3.11", "sequence-3.12", "any_groups-3.13"])
def test_what_another_python_has_recorded_is_replayed(replay, name):
    code, out, _ = replay("--history", f"tests/replay/histories/{name}.json", cwd=tree.ROOT)
    assert (code, "arrives at the recorded result" in out) == (0, True)


def test_a_history_has_everything(perdure, log):
    perdure(*order("big", 100))
    data = json.loads(perdure("export", "big").stdout)
    assert [event["hash"] for event in data["events"]] == [event.hash.hex() for event in log("big")]
    assert data["code"]["module"] == SHOP
    assert data["status"] == "completed"


@pytest.mark.parametrize("amount", [1, 500])
def test_completed_and_failed_runs_arrive_where_they_did(perdure, effects, amount):
    perdure(*order(amount=amount))
    before = effects()
    told = perdure("replay", "order-1")
    assert told.exit_code == 0
    assert ("arrives at the recorded result" if amount == 1 else "fails as recorded: Rejected: order-1") in told.stdout
    assert effects() == before


def test_a_large_payload_is_replayed_from_its_artifact(perdure):
    order_ = '{"id":"big","amount":100}'
    perdure("run", f"{SHOP}:fulfil", "--input", order_, "--run-id", "big")
    assert perdure("replay", "big").exit_code == 0


def test_a_running_run_agrees_up_to_its_last_event(perdure, start, log):
    child = start(*order("r", workflow="slow"))
    # Last comes what notes that the step has been running for a while.
    until(lambda: any(event.key == "hold#1" and event.kind == 3 for event in log("r")), child)
    told = json.loads(perdure("replay", "r", "--json").stdout)
    assert (told["verdict"], told["status"], told["seq"]) == ("open", "running", len(log("r")))
    assert [one["what"] for one in told["next"]] == ["runs hold#1"]
    assert child.poll() is None


def test_a_sleeping_run_waits_for_its_timer_and_a_cancelled_one_did(perdure, start, log):
    child = start(*order("n", workflow="nap"))
    until(lambda: log("n")[-1:] and log("n")[-1].kind == 15, child)
    told = perdure("replay", "n").stdout
    assert "then it waits for @timer#1 until " in told
    child.kill()
    child.wait()
    assert perdure("cancel", "n").exit_code == 0
    told = perdure("replay", "n")
    assert (told.exit_code, "cancelled from outside" in told.stdout) == (0, True)
    assert "then it waits for @timer#1" in told.stdout


def test_a_sync_workflow_is_replayed_too(perdure):
    perdure("run", f"{SHOP}:plain", "--run-id", "p")
    assert "arrives at the recorded result: 42" in perdure("replay", "p").stdout


def test_a_run_or_a_history_must_be_named(perdure):
    assert perdure("replay").exit_code == 2


UNTYPED = """
from __future__ import annotations
from dataclasses import dataclass
import perdure
from perdure import step, workflow

@dataclass
class Parcel:
    label: str

@step
async def send(parcel):
    return parcel

@workflow
async def post() -> str:
    return (await send(Parcel("x" * 3000))).label[:3]

if __name__ == "__main__":
    print(perdure.run(post, run_id="p", store="s.db"))
"""


def test_values_that_name_classes_of_a_script_replay_as_they_were(tmp_path, start):
    (tmp_path / "post.py").write_text(UNTYPED, encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": str(tree.PACKAGE.parent)}
    subprocess.run([sys.executable, "post.py"], cwd=tmp_path, env=environ, check=True, timeout=20)
    child = start("replay", "p", "--store", tmp_path / "s.db", "--json")
    out, _ = child.communicate(timeout=20)
    assert (child.returncode, json.loads(out)["verdict"]) == (0, "same")
