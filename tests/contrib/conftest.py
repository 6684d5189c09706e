from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import perdure
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
        pause = threading.Event()
        deadline = time.monotonic() + PATIENCE  # noqa: TID251 - another process's time
        while not (found := condition()):
            if child is not None and child.poll() is not None:
                pytest.fail(f"the process ended with {child.returncode}: {self.said()}")
            if time.monotonic() > deadline:  # noqa: TID251 - another process's time
                pytest.fail(f"it did not happen: {self.said()}")
            pause.wait(0.01)
        return found

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
