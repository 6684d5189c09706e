"""Which event loop runs on this thread: a run's takes the place of the host's for a moment, and gives it back."""

from __future__ import annotations

import asyncio
import sys
from asyncio import events
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    Before: TypeAlias = tuple[AbstractEventLoop | None, asyncio.Task[Any] | None]

_swap_task: Callable[[AbstractEventLoop, asyncio.Task[Any] | None], asyncio.Task[Any] | None] | None = (
    asyncio.tasks.__dict__["_swap_current_task"] if sys.version_info >= (3, 14) else None
)
"""From Python 3.14 on the task that executes is the thread's, whichever loop it is of; before, each loop has one."""


def take_over(loop: AbstractEventLoop) -> Before:
    """Have a loop run on this thread; returns what ran before, for ``give_back``."""
    host = events._get_running_loop()
    task = None if _swap_task is None or host is None else _swap_task(host, None)
    events._set_running_loop(loop)
    return host, task


def give_back(before: Before) -> None:
    """Let what ran before go on."""
    host, task = before
    events._set_running_loop(host)
    if task is not None and _swap_task is not None and host is not None:
        _swap_task(host, task)


__all__ = ["give_back", "take_over"]
