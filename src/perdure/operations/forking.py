"""Forking a run: another one that begins with what this one has recorded up to a step, and does the rest anew."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from perdure.errors import DefinitionError, RunConflict, StepNotFound, WrongState
from perdure.model import forking, ids
from perdure.model.forking import Fork, Lineage, Steps
from perdure.model.purging import refused
from perdure.runtime import points
from perdure.store.protocol import PAGE, Filter

if TYPE_CHECKING:
    from perdure.model.records import Created, Event, RunRow
    from perdure.operations.verbs import Operations
    from perdure.store.protocol import Store

MOST = 1000
"""Forks of a run that are listed."""
KIN = 100
"""Runs of a tree of forks that are shown."""
_SHOWN = 20
"""Keys named in an error."""


async def forks_of(operations: Operations, row: RunRow) -> list[RunRow]:
    """Return the runs that were forked from one, the newest first: up to ``MOST`` of them."""
    return await operations.call(lambda: list_forks(operations.store, row))


def list_forks(store: Store, row: RunRow, limit: int = MOST) -> list[RunRow]:
    """As ``forks_of``, by whoever may wait for the store."""
    tags = ((forking.ORIGIN_TAG, str(row.run_key)),)
    return store.list_runs(Filter(namespace=row.namespace, tags=tags, limit=limit))


class Kin(NamedTuple):
    """A run in a tree of forks.

    Attributes:
        row: the run.
        depth: how many runs of the tree it comes from; 0: of none.
        step: key of the step that it was forked from; None if it is no fork, or its origin is gone.
    """

    row: RunRow
    depth: int
    step: str | None


def family(store: Store, row: RunRow, most: int = KIN) -> tuple[list[Kin], bool]:
    """Return the tree of forks that a run is in, each after what it was forked from, and whether that is all of it.

    Found by indexes alone, however many runs there are. Runs that are gone end it.

    Args:
        store: where they are.
        row: the run; it and what it comes from are in it, whatever ``most`` leaves out.
        most: runs in it at most.
    """
    path, steps = [row], dict[int, str]()
    while len(path) < most:
        first = store.read_events(path[0].run_key, 0, 1)
        there = forking.lineage(first[0]) if first else None
        origin = None if there is None else store.get_run(there.run_id, row.namespace)
        if there is None or origin is None or origin.uid != there.uid:
            break
        steps[path[0].run_key] = there.step
        path.insert(0, origin)
    direct = {one.run_key for one in path}
    found: list[Kin] = []
    left, is_whole = most - len(path), True
    waiting: list[tuple[RunRow, int]] = [(path[0], 0)]
    while waiting:
        run, depth = waiting.pop()
        if run.run_key not in steps and depth:
            first = store.read_events(run.run_key, 0, 1)
            there = forking.lineage(first[0]) if first else None
            steps[run.run_key] = "" if there is None else there.step
        found.append(Kin(run, depth, steps.get(run.run_key) or None))
        forks = list_forks(store, run, left + len(path) + 1)
        others = [one for one in forks if one.run_key not in direct]
        is_whole = is_whole and len(others) <= left
        others = others[:left]
        left -= len(others)
        straight = path[depth + 1 : depth + 2] if run.run_key in direct else []
        waiting += [(one, depth + 1) for one in [*others, *straight]]
    return found, is_whole


async def fork(
    operations: Operations, run_id: str, from_step: str, *, new_id: str | None = None, keep_keys: bool = False
) -> Created:
    """Make a run that goes on where another one came to a step, or find the one that was made so before.

    Args:
        operations: what is done with runs.
        run_id: the run to fork; it stays as it is, and may be in any state.
        from_step: key of the step that is the first to be done anew, or its name: then that of its first call.
        new_id: the fork's run id; by default a new one.
        keep_keys: let it have its origin's idempotency keys.

    Raises:
        RunNotFound: no such run.
        StepNotFound: it has not come to such a step; nothing was written.
        WrongState: it was cancelled and had begun to undo what it had done before it came to that step.
        RunConflict: the fork's id is taken by another run.
        RunPurged: it was that of a run which has been purged.
        IntegrityError: the part of the log to be copied is damaged; nothing was written.
        DefinitionError: an argument is wrong.
    """
    if not isinstance(from_step, str):
        raise DefinitionError(f"a step is named by its key or its name, not by {from_step!r}", advice="give it as text")
    origin = await operations.row(run_id)
    created, steps = await operations.call(partial(_look, operations, origin, from_step))
    key = steps.find(from_step)
    if key is None:
        raise _no_step(run_id, from_step, list(steps.first))
    if steps.undone_at is not None and steps.first[key] > steps.undone_at:
        raise WrongState(
            f"run {run_id!r} was cancelled, and had begun to undo what it had done before it came to {key}",
            run_id=run_id,
            status=origin.status.word,
            advice="fork it from a step before that",
        )
    now = operations.clock.now()
    seed, keys = forking.uids(origin.uid, created)
    lineage = Lineage(run_id, origin.uid, steps.first[key] - 1, key, seed, keys if keep_keys else None)
    name = ids.run_id(now, os.urandom) if new_id is None else ids.valid_run_id(new_id)
    order = Fork(
        origin.run_key,
        lineage.seq,
        name,
        ids.new_uid(os.urandom),
        now,
        forking.origin(name, created, lineage, operations.by),
    )
    reached = operations.reached
    if reached is not None:
        reached(points.FORK)
    made = await operations.call(partial(operations.store.fork_run, order))
    if reached is not None:
        reached(points.FORKED)
    if made.purged is not None:
        raise refused(made.purged, name)
    if not made.is_new:
        await _check_same(operations, made.row, lineage)
    return made


async def lineage_of(operations: Operations, row: RunRow) -> Lineage | None:
    """Read where a run was forked from; None if it was not."""
    first = await operations.call(partial(operations.store.read_events, row.run_key, 0, 1))
    return forking.lineage(first[0]) if first else None


def _look(operations: Operations, origin: RunRow, step: str) -> tuple[Event, Steps]:
    """Read a run's first event, and where its steps begin, as far as the one that is looked for."""
    steps = Steps()
    created: Event | None = None
    after = 0
    while steps.find(step) is None and (page := operations.store.read_events(origin.run_key, after, PAGE)):
        created = created or page[0]
        steps.feed(page)
        after = page[-1].seq
    if created is None:
        raise _no_step(origin.run_id, "", [])
    return created, steps


async def _check_same(operations: Operations, found: RunRow, wanted: Lineage) -> None:
    there = await lineage_of(operations, found)
    if there != wanted:
        was = "no fork" if there is None else f"a fork of {there.run_id!r} from {there.step}"
        raise RunConflict(
            f"run id {found.run_id!r} is taken, by {was}",
            run_id=found.run_id,
            recorded=was,
            found=f"a fork of {wanted.run_id!r} from {wanted.step}",
            advice="choose another run id",
        )


def _no_step(run_id: str, step: str, known: list[str]) -> StepNotFound:
    named = ", ".join(known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
    return StepNotFound(
        f"run {run_id!r} has not come to a step {step!r}",
        run_id=run_id,
        step=step,
        steps=known,
        advice=f"it has come to {named}" if known else "it has not come to any step yet",
    )


__all__ = ["fork", "lineage_of"]
