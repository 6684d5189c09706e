"""The same laws under other hash seeds, in asyncio's debug mode, and under every other Python that can be found.

A Python is found as ``python3.12`` (and so on) on PATH, or named in ``PERDURE_PYTHONS`` (paths, separated as PATH is),
if what Perdure and its tests depend on is installed there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("python3.11", "python3.12", "python3.13", "python3.14")
NEEDED = "import anyio, apsw, click, hypothesis, pydantic, pytest, pytest_timeout, rich, uvloop"


def others():
    """Other Pythons that have what is needed."""
    found = [path for name in NAMES if (path := shutil.which(name))]
    found += [path for path in os.environ.get("PERDURE_PYTHONS", "").split(os.pathsep) if path]
    usable = []
    for path in found:
        code = f"{NEEDED}, sys; print(sys.version_info[:2])"
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 0 and done.stdout.strip() != str(sys.version_info[:2]):
            usable.append(path)
    return usable


def run_tests(python, *tests, seed="random", **variables):
    environment = {**os.environ, "PYTHONPATH": "src", "PYTHONHASHSEED": seed, "PERDURE_CUTS": "2", **variables}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(320)
@pytest.mark.parametrize("seed", ["0", "1"])
def test_recorded_histories_replay_under_any_hash_seed(seed):
    run_tests(sys.executable, "tests/replay", seed=seed, PYTHONASYNCIODEBUG="1")


@pytest.mark.slow
@pytest.mark.timeout(320)
def test_everything_holds_under_every_other_python():
    found = others()
    if not found:
        pytest.skip("no other Python with the dependencies was found; name some in PERDURE_PYTHONS")
    for python in found:
        run_tests(python, "tests/replay", "tests/runtime", "--deselect", "tests/runtime/test_pythons.py")
