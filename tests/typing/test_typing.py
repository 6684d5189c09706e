"""The files beside this one hold in both type checkers: what is inferred, and that every expected error is one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FILES = sorted(str(p.relative_to(ROOT)) for p in HERE.glob("*.py") if not p.name.startswith("test_"))


def check(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command, *FILES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_mypy_strict_infers_what_is_asserted_and_finds_every_expected_error(tmp_path: Path) -> None:
    assert check("mypy", "--follow-imports=silent", f"--cache-dir={tmp_path}") == ""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_basedpyright_infers_what_is_asserted_and_finds_every_expected_error() -> None:
    assert check("basedpyright", "--warnings", "--pythonpath", sys.executable) == ""


def test_there_is_something_to_check() -> None:
    assert len(FILES) >= 3
