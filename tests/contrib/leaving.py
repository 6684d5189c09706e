"""What steps of these tests leave behind: lines in a file, outside of any store."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path


def folder() -> Path:
    return Path(os.environ["FOLDER"])


def leave(what: str) -> None:
    with (folder() / "effects").open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")


async def gate(name: str) -> None:
    """Wait until the test says so."""
    while not (folder() / name).exists():
        await asyncio.sleep(0.005)
