"""Each protection, switched off once, makes a named test fail: what is not missed is not protected."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from tests.mutations.table import TABLE, Mutation

ROOT = Path(__file__).parents[2]
STORM = "PERDURE_STORM" in os.environ

PYTEST = """
import sys
import pytest

code = pytest.main(sys.argv[1:])
import perdure

print("perdure is", perdure.__file__)
sys.exit(code)
"""


def copy_to(folder: Path) -> Path:
    """Copy the package; compiled files come along, as they are good for what is not changed."""
    return Path(shutil.copytree(Path(perdure.__file__).parent, folder / "src" / "perdure"))


def run_tests(package: Path, tests: list[str]) -> tuple[int, str]:
    """Run tests against a copy of the package; returns pytest's exit code and what it said."""
    options = ["-q", "-rfE", "--tb=short", "-p", "no:cacheprovider", "-p", "pytest_timeout", "--timeout=30"]
    nodes = [f"tests/{test}" for test in tests]
    done = subprocess.run(
        [sys.executable, "-c", PYTEST, *options, *nodes],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        env=os.environ | {"PYTHONPATH": str(package.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert f"perdure is {package}{os.sep}" in done.stdout, done.stdout
    return done.returncode, done.stdout


def switch_off(package: Path, mutation: Mutation) -> None:
    """Change the copy; the text to change must be there exactly once."""
    file = package / mutation.file
    text = file.read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, f"{mutation.file} has {mutation.old!r} {text.count(mutation.old)} times"
    file.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


@pytest.mark.parametrize("mutation", TABLE, ids=lambda mutation: mutation.protection)
def test_a_protection_switched_off_is_missed(mutation: Mutation, tmp_path: Path) -> None:
    if mutation.slow and not STORM:
        pytest.skip("PERDURE_STORM is not set")
    package = copy_to(tmp_path)
    switch_off(package, mutation)
    code, said = run_tests(package, [mutation.test])
    assert code == pytest.ExitCode.TESTS_FAILED, said
    assert f"FAILED tests/{mutation.test}" in said, said
    assert "ERROR " not in said.replace("ERROR    perdure", ""), said


def test_with_every_protection_in_place_none_of_these_tests_fails(tmp_path: Path) -> None:
    tests = sorted({mutation.test for mutation in TABLE if STORM or not mutation.slow})
    code, said = run_tests(copy_to(tmp_path), tests)
    assert code == pytest.ExitCode.OK, said
