"""The named points at which a process may die, as a test meets them."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class CommitPoints:
    """Records the points that an engine reaches, and acts at one of them: ``Engine(reached=CommitPoints())``.

    The names are those of ``perdure.runtime.points``. To die for good at the third commit, in a child process::

        points = CommitPoints()
        points.at("commit", 3, lambda: os.kill(os.getpid(), signal.SIGKILL))

    ``body`` and ``body_ended`` are told in the body's context, where ``perdure.step_context()`` says which step it is.
    """

    def __init__(self) -> None:
        """Begin with nothing reached."""
        self.names: list[str] = []
        self._counts: dict[str, int] = {}
        self._actions: dict[tuple[str, int], Callable[[], object]] = {}
        self._lock = Lock()

    def __call__(self, name: str) -> None:
        """Note that a point is reached, then do what was asked for there; from any thread."""
        with self._lock:
            count = self._counts[name] = self._counts.get(name, 0) + 1
            self.names.append(name)
        action = self._actions.get((name, count))
        if action is not None:
            action()

    def at(self, name: str, number: int, action: Callable[[], object]) -> None:
        """Act when a point is reached for the ``number``-th time, from 1."""
        self._actions[name, number] = action

    def count(self, name: str) -> int:
        """How often a point was reached."""
        return self._counts.get(name, 0)


__all__ = ["CommitPoints"]
