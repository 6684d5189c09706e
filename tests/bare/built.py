"""What a user gets: an sdist of this tree, a wheel built from it, and an environment that has only the wheel.

All are made once for a test session, by the first of its processes that needs them.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house import tree

WARNINGS = ("-W", "error")


@dataclass(frozen=True)
class Built:
    """The builds, and where environments are made from them."""

    folder: Path

    @property
    def sdist(self) -> Path:
        (found,) = (self.folder / "dist").glob("perdure-*.tar.gz")
        return found

    @property
    def wheel(self) -> Path:
        (found,) = (self.folder / "dist").glob("perdure-*.whl")
        return found

    @property
    def python(self) -> Path:
        """The Python that has the wheel and what it needs."""
        return self.folder / "env" / "bin" / "python"

    def make(self) -> None:
        """Build, and install."""
        dist = self.folder / "dist"
        run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", dist, cwd=tree.ROOT)
        with tarfile.open(self.sdist) as archive:
            archive.extractall(self.folder / "unpacked", filter="data")
        (unpacked,) = (self.folder / "unpacked").iterdir()
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", dist, cwd=unpacked)
        run(sys.executable, "-m", "venv", "--without-pip", self.folder / "env")
        run(*self.pip(self.python), "install", "-q", "--no-compile", self.wheel)

    def pip(self, python: Path) -> list[str]:
        """The command that installs into an environment, which has no pip itself: that would take the longest."""
        return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]

    def layer(self, folder: Path) -> dict[str, str]:
        """Make an environment on top of that one, which may get more packages; returns commands that stand for it."""
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        (lower,), (upper,) = self.folder.glob("env/lib/*/site-packages"), folder.glob("lib/*/site-packages")
        (upper / "lower.pth").write_text(f"{lower}\n", encoding="utf-8")
        python = folder / "bin" / "python"
        commands = {
            "python": [python, *WARNINGS],
            "perdure": [python, *WARNINGS, self.python.parent / "perdure"],
            "pip": [*self.pip(python), "-qq"],
        }
        return {name: shlex.join(map(str, command)) for name, command in commands.items()}


def run(*command: object, cwd: Path | None = None) -> None:
    # What pip takes is what was tested together.
    environ = os.environ | {"PIP_CONSTRAINT": str(tree.ROOT / "constraints.txt")}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environ, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, shlex.join(words) + done.stdout + done.stderr


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The builds of this session."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "built"
    folder.mkdir(exist_ok=True)
    made = Built(folder)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            made.make()
            (folder / "done").touch()
    return made
