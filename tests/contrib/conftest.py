from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from tests.cli.conftest import until
from tests.house import tree

PATIENCE = 30.0


class Processes:
    """Starts modules as processes of their own, in which effects are left in files of one folder."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        self.children: list[subprocess.Popen[str]] = []
        self.environ = {
            **os.environ,
            "PYTHONPATH": f"{Path(perdure.__file__).parents[1]}{os.pathsep}{tree.ROOT}",
            "PERDURE_STORE": store,
            "FOLDER": str(folder),
        }

    def start(self, *command: object, **environ: str) -> subprocess.Popen[str]:
        with (self.folder / f"said-{len(self.children)}").open("w", encoding="utf-8") as said:
            child = subprocess.Popen(
                [sys.executable, "-W", "error", *map(str, command)],
                cwd=self.folder, env={**self.environ, **environ}, stdout=said, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
        self.children.append(child)
        return child

    def said(self) -> str:
        """All that they have written."""
        return "".join(path.read_text("utf-8") for path in sorted(self.folder.glob("said-*")))

    def effects(self) -> list[str]:
        file = self.folder / "effects"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def open(self, gate: str) -> None:
        (self.folder / gate).touch()

    def until(self, condition, child=None):
        """Wait for something that another process does."""
        return until(condition, child, self.said, PATIENCE)

    def die_and_go_on(self, module, at, *, output, lines):
        """Have a module die of the effect ``at``, and start it again: all is done, and only what was under way twice.

        Args:
            module: prints what came of it, which is to be ``output``.
            at: what it does as it dies; a forecast is made beside others.
            output: what it prints in the end.
            lines: the effects that it has if it does not die.

        Returns the effects of both.
        """
        assert self.start("-m", module, DIE=at).wait(timeout=PATIENCE) == -signal.SIGKILL
        assert self.start("-m", module, DIE=at).wait(timeout=PATIENCE) == 0, self.said()
        assert self.said().splitlines()[-1] == output
        effects = self.effects()
        beside = {"weather Rome", "weather Oslo", "where"} if at.startswith("weather") else {at}
        for line in set(lines):
            assert effects.count(line) <= lines.count(line) + (line in beside), (line, effects)
        assert effects.count(at) == 2
        return effects

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()


@pytest.fixture
def store(made_store, monkeypatch):
    """Where everything finds its store."""
    address = made_store()
    monkeypatch.setenv("PERDURE_STORE", address)
    return address


@pytest.fixture
def processes(store, tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDER", str(tmp_path))
    made = Processes(tmp_path, store)
    yield made
    made.close()
