"""What is in examples/deploy is true: units are valid, options exist, and a container's worker drains."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys

import click
import pytest

from perdure.cli.main import cli
from perdure.model.durations import seconds
from tests.house import tree

DEPLOY = tree.ROOT / "examples" / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")

pytestmark = pytest.mark.only("sqlite")  # where runs are kept is not what it is about


def parsed(words):
    """What a command line of ours gives, as click understands it; raises if it has what there is not."""
    name, *rest = words
    command = cli.get_command(click.Context(cli), name)
    return command.make_context(name, rest).params


def unit(path):
    """A unit's settings; those that may stand several times keep the last."""
    lines = [line for line in path.read_text("utf-8").splitlines() if re.match(r"\w+=", line)]
    return dict(line.split("=", 1) for line in lines)


def instruction(name):
    """The arguments of the last instruction of this name in the Dockerfile."""
    return re.findall(rf"^{name} +(.+)$", DOCKERFILE, re.MULTILINE)[-1]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_valid_and_gives_steps_the_time_that_it_promises(path, tmp_path):
    settings = unit(path)
    program, *words = shlex.split(settings["ExecStart"])
    assert program == "/srv/shop/venv/bin/perdure"
    given = parsed(words)
    assert settings["KillSignal"] == "SIGTERM"
    if words[0] == "worker":
        assert float(settings["TimeoutStopSec"]) > seconds(given["drain"]) + seconds(given["grace"])
    if (verify := shutil.which("systemd-analyze")) is None:
        return
    here = tmp_path / path.name.replace("@", "@1")
    here.write_text(path.read_text("utf-8").replace(program, sys.executable), encoding="utf-8")
    done = subprocess.run([verify, "verify", "--man=no", here], check=False, capture_output=True, text=True, timeout=30)
    assert [line for line in done.stderr.splitlines() if path.name.partition(".")[0].rstrip("@") in line] == []


def test_the_page_shows_lines_of_the_unit():
    page = (tree.ROOT / "docs" / "how-to" / "deploy-workers.md").read_text("utf-8")
    (shown,) = re.findall(r"^```ini\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert set(shown.split("\n")) <= set((DEPLOY / "shop-worker@.service").read_text("utf-8").split("\n"))


def test_a_container_gives_steps_the_time_that_it_promises_and_runs_as_nobody_special():
    given = parsed(json.loads(instruction("CMD"))[1:])
    told = [
        float(wait) for wait in re.findall(r"(?:docker stop -t|--stop-timeout|GracePeriodSeconds:) ?(\d+)", DOCKERFILE)
    ]
    assert len(told) == 3
    assert min(told) > seconds(given["drain"]) + seconds(given["grace"])
    assert instruction("STOPSIGNAL") == "SIGTERM"
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
    assert len(stages) == 2
    assert re.search(r"^USER (?!root)\w+$", stages[-1], re.MULTILINE)
    assert "pip install" not in stages[-1]


def test_the_worker_of_a_container_is_healthy_until_it_has_drained(tmp_path):
    environ = os.environ | {"PYTHONPATH": str(tree.PACKAGE.parent)}
    environ |= dict(re.findall(r"(PERDURE_\w+)=(\S+)", instruction("ENV")))
    environ |= {"PERDURE_STORE": str(tmp_path / "perdure.db"), "PERDURE_METRICS": "127.0.0.1:0"}
    perdure = [sys.executable, "-W", "error", "-m", "perdure"]
    subprocess.run([*perdure, "init"], cwd=tmp_path, env=environ, check=True, capture_output=True, timeout=30)
    _, *words = json.loads(instruction("CMD"))
    child = subprocess.Popen([*perdure, *words], cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True)
    try:
        said = [child.stderr.readline() for _ in range(3)]
        assert "executes fulfil" in said[0]
        (port,) = re.findall(r":(\d+)/metrics", said[2])
        assert healthy(port)
        child.send_signal(signal.SIGTERM)
        assert "stopped; what was not finished goes on" in child.communicate(timeout=30)[1]
        assert child.returncode == 0
        assert not healthy(port)
    finally:
        child.kill()
        child.communicate()


def healthy(port):
    python, *words = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    assert python == "python"
    words = [word.replace("9464", port) for word in words]
    return subprocess.run([sys.executable, *words], check=False, capture_output=True, timeout=30).returncode == 0


def test_workflows_name_no_command_of_ours_that_there_is_not():
    text = (tree.ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    lines = re.findall(r"^ +perdure (.+)$", text, re.MULTILINE)
    assert len(lines) > 3
    for line in lines:
        if not line.startswith("--"):
            parsed(shlex.split(line))
    # A token that is kept nowhere cannot be stolen: whoever publishes is known by where it runs.
    assert "id-token: write" in text
    assert "secrets." not in text
