"""Read a page of the documentation and do what it says, as a reader would in a new folder.

- A ``python`` fence with ``title="orders.py"`` is written to that file; one without a title is executed, in order, in
  one module for the whole page.
- A ``console`` fence is typed in: what follows ``$`` is executed, what follows that is expected. Times, durations,
  process ids and idempotency keys need not agree, a line ``…`` stands for any lines, ``…`` within a line for any text.
- A command that ends in ``&`` goes on in the background; ``$ kill %1`` ends it with SIGTERM.
- A command whose output ends in ``Killed`` gets SIGKILL as soon as what stands before that has appeared.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tests.house import tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCS = tree.ROOT / "docs"
PAGES = sorted(path for path in tree.files() if path.is_relative_to(DOCS) and path.suffix == ".md")
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TITLE = re.compile(r'title="([\w./]+)"')
VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\d"), "DATE"),
    (re.compile(r"\d\d:\d\d:\d\d(\.\d+)?"), "TIME"),
    (re.compile(r"\bnow\b|\b\d+(\.\d+)? (µs|ms|s)\b( ago)?"), "SPAN"),
    (re.compile(r"\b(pid|process|worker) \d+"), r"\1 PID"),
    (re.compile(r"\b[a-z2-7]{32}\b"), "IDEMPOTENCY-KEY"),
    (re.compile(r"\bby [\w.-]+@[\w.-]+"), "by USER@HOST"),
    (re.compile(r" +"), " "),
)


class Fence(NamedTuple):
    """A fenced block: its language, title and text, and the line of the page where the text begins."""

    language: str
    title: str | None
    text: str
    line: int


@dataclass
class Command:
    """A line that is typed in, and the lines that the page shows after it."""

    text: str
    expected: list[str]


def fences(page: Path) -> Iterator[Fence]:
    """The fenced blocks of a page."""
    text = page.read_text("utf-8")
    for match in FENCE.finditer(text):
        language, rest, body = match.groups()
        title = TITLE.search(rest)
        yield Fence(language, title and title[1], body, text.count("\n", 0, match.start(3)) + 1)


def commands(text: str) -> list[Command]:
    """What is typed in a console block, and what is shown for it."""
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        elif found[-1].text.endswith("\\") and not found[-1].expected:
            found[-1].text = found[-1].text[:-1] + line.strip()
        else:
            found[-1].expected.append(line)
    return found


def plain(line: str) -> str:
    """A line without what differs each time."""
    for pattern, text in VARIES:
        line = pattern.sub(text, line)
    return line.strip()


def fits(expected: list[str], found: list[str]) -> bool:
    """Whether the output is what the page shows."""
    parts = ["(?:.*\n)*" if line.strip() == "…" else pattern(line) + "\n" for line in expected]
    return re.fullmatch("".join(parts), "".join(plain(line) + "\n" for line in found)) is not None


def pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in plain(line).split("…"))


class Shell:
    """Types commands in, in one folder.

    Args:
        folder: where that folder is made.
        tools: the commands that are there beside those of the system, each as a line for the shell; by default
            ``python`` and ``perdure`` of the tests' own environment, with the source tree as it is.
    """

    def __init__(self, folder: Path, tools: dict[str, str] | None = None) -> None:
        self.folder = folder / "page"
        self.folder.mkdir()
        drop = {"PERDURE_STORE", "FORCE_COLOR", "COLUMNS", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
        self.environ = {name: value for name, value in os.environ.items() if name not in drop}
        if tools is None:
            python = f"{shlex.quote(sys.executable)} -W error"
            tools = {"python": python, "perdure": f"{python} -m perdure"}
            self.environ["PYTHONPATH"] = str(tree.PACKAGE.parent)
        (folder / "bin").mkdir()
        for name, line in tools.items():
            (folder / "bin" / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n')
            (folder / "bin" / name).chmod(0o755)
        self.environ |= {
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PIP_CONSTRAINT": str(tree.ROOT / "constraints.txt"),
            "PYTHONUNBUFFERED": "1",
        }
        self.background: subprocess.Popen[str] | None = None

    def type(self, command: Command) -> list[str]:
        """Execute a command; returns what it writes."""
        if command.text == "kill %1":
            assert self.background is not None
            child, self.background = self.background, None
            child.terminate()
            return child.communicate(timeout=30)[0].splitlines()
        text = command.text.removesuffix("&").strip()
        signalled = text != command.text or command.expected[-1:] == ["Killed"]
        child = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {text}" if signalled else text],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if command.text.endswith("&"):
            self.background = child
            return self._read(child, len(command.expected))
        if command.expected[-1:] == ["Killed"]:
            lines = self._read(child, len(command.expected) - 1)
            child.send_signal(signal.SIGKILL)
            return [*lines, *child.communicate(timeout=30)[0].splitlines(), "Killed"]
        return child.communicate(timeout=50)[0].splitlines()

    @staticmethod
    def _read(child: subprocess.Popen[str], lines: int) -> list[str]:
        assert child.stdout is not None
        return [child.stdout.readline().rstrip("\n") for _ in range(lines)]

    def close(self) -> None:
        """End what is still in the background."""
        if self.background is not None:
            self.background.kill()
            self.background.communicate()
            self.background = None
