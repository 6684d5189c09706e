"""The same laws under other hash seeds, in asyncio's debug mode, and under every other Python that there is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.pythons import OTHERS, ROOT, ready

SCENARIOS = ["tests/runtime/test_scenarios.py"]
if "PERDURE_STORM" in os.environ:
    SCENARIOS = ["tests/runtime", "--deselect", "tests/runtime/test_pythons.py"]


def run_tests(python, place, *tests, seed="random", **variables):
    environment = {**os.environ, "PYTHONPATH": "src", "PYTHONHASHSEED": seed, "PERDURE_CUTS": "2", **variables}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={place / 'files'}", *tests],
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
def test_recorded_histories_replay_under_any_hash_seed(tmp_path, seed):
    run_tests(sys.executable, tmp_path, "tests/replay", seed=seed, PYTHONASYNCIODEBUG="1")


@pytest.mark.slow
@pytest.mark.timeout(320)
@pytest.mark.parametrize("minor", OTHERS)
def test_what_one_python_has_recorded_another_goes_on_with(tmp_path, minor):
    python = ready(minor)
    if python is None:
        pytest.skip(f"there is no Python {minor} with what the tests need: see tests/pythons.py")
    run_tests(python, tmp_path, "tests/replay", *SCENARIOS)
