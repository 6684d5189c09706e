"""Each protection, switched off once, makes a named test fail: what is not missed is not protected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import perdure
from tests.mutations.table import TABLE, Mutation

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

ROOT = Path(__file__).parents[2]
PACKAGE = Path(perdure.__file__).parent
STORM = "PERDURE_STORM" in os.environ
SHORT, LONG = 2.0, 20.0
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
    numbers = count()

    def run(package: Path, tests: list[str], patience: float) -> tuple[int, str]:
        output = package.parents[1] / "said"
        order = {
            "number": (number := next(numbers)),
            "folder": str(package.parent),
            "tests": [f"tests/{test}" for test in tests],
            "output": str(output),
            "patience": patience,
        }
        print(json.dumps(order), file=driver.stdin, flush=True)
        answered = code = -1
        while answered != number:  # a test that was ended before it was answered leaves its answer behind
            answered, code = map(int, driver.stdout.readline().split())
        said = output.read_text(encoding="utf-8", errors="replace")
        assert f"perdure is {package}{os.sep}" in said, said
        return code, said

    yield run
    driver.stdin.close()
    driver.wait()
    driver.stdout.close()


def without(mutation: Mutation, folder: Path) -> Path:
    """Give the package without a protection: one file is another, the text to change must be in it exactly once."""
    package = folder / "src" / "perdure"
    link(PACKAGE, package, *Path(mutation.file).parts)
    text = (PACKAGE / mutation.file).read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, f"{mutation.file} has {mutation.old!r} {text.count(mutation.old)} times"
    (package / mutation.file).write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    return package


def link(original: Path, folder: Path, name: str, *rest: str) -> None:
    """Make a folder like another, with links to all but one file; what is compiled is good for the others."""
    folder.mkdir(parents=True)
    for entry in original.iterdir():
        if rest and entry.name == name:
            link(entry, folder / name, *rest)
        elif not rest and entry.name == "__pycache__":
            (folder / entry.name).mkdir()
            for compiled in entry.iterdir():
                if compiled.name.split(".")[0] != Path(name).stem:
                    (folder / entry.name / compiled.name).symlink_to(compiled)
        elif entry.name != name:
            (folder / entry.name).symlink_to(entry)


@pytest.mark.parametrize("mutation", TABLE, ids=lambda mutation: mutation.protection)
def test_a_protection_switched_off_is_missed(mutation: Mutation, tmp_path: Path, run_tests: Run) -> None:
    if mutation.slow and not STORM:
        pytest.skip("PERDURE_STORM is not set")
    package = without(mutation, tmp_path)
    code, said = run_tests(package, [mutation.test], SHORT)
    if code == pytest.ExitCode.INTERNAL_ERROR:
        # Interrupted between two lines, a loop without end leaves a traceback that pytest falls over, now and then.
        code, said = run_tests(package, [mutation.test], SHORT)
    assert code == pytest.ExitCode.TESTS_FAILED, said
    assert f"FAILED tests/{mutation.test}" in said, said
    assert "errors during collection" not in said, said


@pytest.mark.slow
def test_with_every_protection_in_place_none_of_these_tests_fails(tmp_path: Path, run_tests: Run) -> None:
    """Without a storm one of each module and database: whether they fail because of the driver is the question."""
    tests = sorted({mutation.test for mutation in TABLE if STORM or not mutation.slow})
    if not STORM:
        tests = list({(test.partition("::")[0], "postgres" in test): test for test in tests}.values())
    package = tmp_path / "src" / "perdure"
    package.parent.mkdir()
    package.symlink_to(PACKAGE)
    code, said = run_tests(package, tests, LONG)
    assert code == pytest.ExitCode.OK, said
