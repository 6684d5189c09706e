"""Each protection, switched off once, makes a named test fail: what is not missed is not protected."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import perdure
from tests.mutations.table import TABLE, Mutation

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

ROOT = Path(__file__).parents[2]
STORM = "PERDURE_STORM" in os.environ
SHORT, LONG = 5.0, 20.0
"""Seconds that tests wait for what a missing protection keeps from coming, and for what comes on a busy machine."""

Run = Callable[[Path, list[str], float], tuple[int, str]]


@pytest.fixture(scope="session")
def run_tests() -> Iterator[Run]:
    """Run tests against a copy of the package; returns pytest's exit code and what it said."""
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.mutations.driver"],
        cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert driver.stdin is not None
    assert driver.stdout is not None

    def run(package: Path, tests: list[str], patience: float) -> tuple[int, str]:
        output = package.parents[1] / "said"
        order = {
            "folder": str(package.parent),
            "tests": [f"tests/{test}" for test in tests],
            "output": str(output),
            "patience": patience,
        }
        print(json.dumps(order), file=driver.stdin, flush=True)
        code = int(driver.stdout.readline())
        said = output.read_text(encoding="utf-8", errors="replace")
        assert f"perdure is {package}{os.sep}" in said, said
        return code, said

    yield run
    driver.stdin.close()
    driver.wait()
    driver.stdout.close()


def copy_to(folder: Path) -> Path:
    """Copy the package; compiled files come along, as they are good for what is not changed."""
    return Path(shutil.copytree(Path(perdure.__file__).parent, folder / "src" / "perdure"))


def switch_off(package: Path, mutation: Mutation) -> None:
    """Change the copy; the text to change must be there exactly once."""
    file = package / mutation.file
    text = file.read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, f"{mutation.file} has {mutation.old!r} {text.count(mutation.old)} times"
    file.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


@pytest.mark.parametrize("mutation", TABLE, ids=lambda mutation: mutation.protection)
def test_a_protection_switched_off_is_missed(mutation: Mutation, tmp_path: Path, run_tests: Run) -> None:
    if mutation.slow and not STORM:
        pytest.skip("PERDURE_STORM is not set")
    package = copy_to(tmp_path)
    switch_off(package, mutation)
    code, said = run_tests(package, [mutation.test], SHORT)
    if code == pytest.ExitCode.INTERNAL_ERROR:
        # Interrupted between two lines, a loop without end leaves a traceback that pytest falls over, now and then.
        code, said = run_tests(package, [mutation.test], SHORT)
    assert code == pytest.ExitCode.TESTS_FAILED, said
    assert f"FAILED tests/{mutation.test}" in said, said
    assert "errors during collection" not in said, said


@pytest.mark.slow
def test_with_every_protection_in_place_none_of_these_tests_fails(tmp_path: Path, run_tests: Run) -> None:
    tests = sorted({mutation.test for mutation in TABLE if STORM or not mutation.slow})
    code, said = run_tests(copy_to(tmp_path), tests, LONG)
    assert code == pytest.ExitCode.OK, said
