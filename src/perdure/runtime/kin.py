"""What a worker that executes a single run executes besides it: its children, theirs, and the run it goes on as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.finding import loaded_code
from perdure.model.records import Status
from perdure.runtime.claiming import PAUSE
from perdure.store.protocol import PAGE, Filter, Route

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from perdure.model.records import Event, RunRow
    from perdure.runtime.claiming import Claiming
    from perdure.runtime.journal import Journal
    from perdure.store.protocol import Store
    from perdure.workflow import Workflow

OPEN = tuple(status for status in Status if not status.terminal)


class Kin:
    """The runs to be claimed for the sake of one that is wanted; lives on the worker's loop.

    Args:
        claiming: what claims them.
        store: where they are.
        journal: how the store is asked.
        definitions: the workflows that the worker can execute; those of children are added.
        routes: the same, as claims have it.
    """

    def __init__(
        self,
        claiming: Claiming,
        store: Store,
        journal: Journal,
        definitions: dict[tuple[str, str], Workflow[Any, Any]],
        routes: list[Route],
    ) -> None:
        self._claiming, self._store, self._journal = claiming, store, journal
        self._definitions, self._routes = definitions, routes

    def learn(self, workflow: Workflow[Any, Any], queue: str, namespace: str) -> None:
        """A run starts this as a child from a queue, or has started it."""
        self._definitions.setdefault((workflow.name, workflow.version), workflow)
        route = Route(workflow.name, workflow.version, queue, namespace)
        if route not in self._routes:
            self._routes.append(route)

    def want_children(self, row: RunRow, loop: asyncio.AbstractEventLoop) -> None:
        """Go on with what a run waits for.

        A process that has died may have started children of workflows that nobody has named here: those that waited
        for it do not run again before the children have ended, so their code is looked for where the log says it is.
        """

        def look() -> list[tuple[RunRow, Event | None]]:
            children = self._store.list_runs(Filter(OPEN, namespace=row.namespace, limit=PAGE, parent=row.run_key))
            return [
                (child, None if known(child) else self._store.read_events(child.run_key, 0, 1)[0]) for child in children
            ]

        def known(child: RunRow) -> bool:
            return (child.workflow, child.version) in self._definitions

        def found(children: list[tuple[RunRow, Event | None]]) -> None:
            for child, created in children:
                code = self._definitions.get((child.workflow, child.version))
                if code is None and created is not None:
                    code = loaded_code(child, created)
                if code is not None:
                    self.learn(code, child.queue, row.namespace)
                if known(child) and child.run_key not in self._claiming.wanted:
                    self._claiming.want(child.run_key)
                    if child.status is Status.WAITING:
                        self.want_children(child, loop)

        self._ask(look, found, loop)

    def want_successor(self, row: RunRow, loop: asyncio.AbstractEventLoop) -> None:
        """Go on with the run that has this one's id now."""

        def found(successor: RunRow | None) -> None:
            if successor is not None:
                self._claiming.want(successor.run_key)

        self._ask(lambda: self._store.get_run(row.run_id, row.namespace), found, loop)

    def _ask(
        self, question: Callable[[], Any], answer: Callable[[Any], object], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Ask the store, until it answers."""

        def done(asked: asyncio.Future[Any]) -> None:
            if asked.exception() is not None:
                loop.call_later(PAUSE, self._ask, question, answer, loop)
            else:
                answer(asked.result())

        self._journal.call(question).add_done_callback(done)


__all__ = ["Kin"]
