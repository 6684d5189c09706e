"""The program in the README does what the README says."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.house import tree


def test_the_readme_program_runs_and_its_second_run_repeats_no_step(tmp_path):
    (program,) = re.findall(r"^```python\n(.*?)^```", text(), flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "orders.py").write_text(program, encoding="utf-8")
    first, second = run(tmp_path), run(tmp_path)
    result = "payment-42, parcel-42, label-42"
    assert sorted(first) == sorted(["charging 5000 for 42", "packing 42", result])
    assert second == [result]


def test_the_readme_program_is_short():
    (program,) = re.findall(r"^```python\n(.*?)^```", text(), flags=re.DOTALL | re.MULTILINE)
    assert len([line for line in program.splitlines() if line.strip()]) <= 30


def text() -> str:
    return (tree.ROOT / "README.md").read_text(encoding="utf-8")


def run(folder):
    """The lines that the program prints."""
    command = [sys.executable, "-W", "error", "orders.py"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
