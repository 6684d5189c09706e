"""Which runs are meant: filters as users write them, checked before anything is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.errors import DefinitionError
from perdure.model.counting import edges, traffic_of
from perdure.model.durations import instant, to_datetime
from perdure.model.starting import valid_tags
from perdure.options import statuses
from perdure.queues import queue_name
from perdure.store.protocol import Filter
from perdure.workflow import Workflow

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Unpack

    from perdure.model.counting import Traffic
    from perdure.operations import Operations
    from perdure.options import RunFilters

MOST_BUCKETS = 1000
"""Of one look at the traffic."""


def filter_of(namespace: str, **given: Unpack[RunFilters]) -> Filter:
    """Return what stores are asked for; ``codeless`` is not of their concern.

    Raises:
        DefinitionError: what is given means nothing, or can be true of no run.
    """
    wanted = statuses(given.get("status"))
    tags = given.get("tags")
    queue, error = given.get("queue"), given.get("error")
    created_after, created_before = _range("created", given.get("created_after"), given.get("created_before"))
    ended_after, ended_before = _range("ended", given.get("ended_after"), given.get("ended_before"))
    return Filter(
        status=None if wanted is None else tuple(wanted),
        workflow=workflow_name(given.get("workflow")),
        namespace=namespace,
        tags=() if tags is None else tuple(valid_tags(tags).items()),
        version=_text("version", given.get("version")),
        queue=None if queue is None else queue_name(queue),
        id_prefix=_text("id_prefix", given.get("id_prefix")) or "",
        created_after=created_after,
        created_before=created_before,
        ended_after=ended_after,
        ended_before=ended_before,
        error=None if error is None else error_name(error),
    )


async def traffic(
    operations: Operations, workflow: str | None, since: datetime, until: datetime | None, buckets: int
) -> Traffic:
    """Return what became of runs over time; see ``Engine.traffic``.

    Raises:
        DefinitionError: an argument is wrong, or ``until`` is not after ``since``.
    """
    store = operations.store
    first = instant(since, what="since")
    last = store.now() if until is None else instant(until, what="until")
    if first >= last:
        raise DefinitionError(
            f"nothing is at {to_datetime(first)} or later and before {to_datetime(last)}",
            advice="since is the earlier of the two",
        )
    if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= MOST_BUCKETS:
        raise DefinitionError(f"buckets is a whole number from 1 to {MOST_BUCKETS}, not {buckets!r}")
    namespace = operations.namespace
    found = await operations.call(lambda: store.traffic(first, last, buckets, workflow=workflow, namespace=namespace))
    return traffic_of(edges(first, last, buckets), found)


def workflow_name(given: Workflow[Any, Any] | str | None) -> str | None:
    """Return the name of a workflow that is given as itself or by its name.

    Raises:
        DefinitionError: it is neither.
    """
    name = given.name if isinstance(given, Workflow) else given
    if name is not None and not isinstance(name, str):
        raise DefinitionError(f"{name!r} is no workflow and no name of one", advice="give either")
    return name


def error_name(given: type[BaseException] | str) -> str:
    """Return how the reason of a run begins that an error of this kind stopped: the bare name of a class, or a code.

    Raises:
        DefinitionError: it is neither.
    """
    if isinstance(given, type) and issubclass(given, BaseException):
        return given.__qualname__.rpartition(".")[2]
    name = given.rpartition(".")[2] if isinstance(given, str) else ""
    if not name or any(letter.isspace() or letter == ":" for letter in name):
        raise DefinitionError(
            f"error is the name of an exception's class or the code of an error, not {str(given)[:80]!r}",
            advice='write error="TimeoutError", error=orders.Rejected or error="drift"',
        )
    return name


def _range(what: str, after: datetime | None, before: datetime | None) -> tuple[int | None, int | None]:
    since = None if after is None else instant(after, what=f"{what}_after")
    until = None if before is None else instant(before, what=f"{what}_before")
    if since is not None and until is not None and since >= until:
        raise DefinitionError(
            f"no run was {what} at {to_datetime(since)} or later and before {to_datetime(until)}",
            advice=f"{what}_after is the earlier of the two",
        )
    return since, until


def _text(what: str, given: object) -> str | None:
    if given is not None and not isinstance(given, str):
        raise DefinitionError(f"{what} is text, not {type(given).__name__}")
    return given


__all__ = ["MOST_BUCKETS", "error_name", "filter_of", "traffic", "workflow_name"]
