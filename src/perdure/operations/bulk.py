"""Doing one thing with many runs: each alone, a few at a time, so that what fails with one stops no other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perdure.errors import StoreError, WrongState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from perdure.model.records import RunRow

_AT_ONCE: Final = 16
"""Runs that are dealt with at a time."""


@dataclass(slots=True)
class Tally:
    """What became of many runs.

    Attributes:
        done: how many it was done to.
        unchanged: how many it was not done to, as they were there already, or have got on since they were listed.
        failures: by run id, why it could not be done.
        more: whether there are others of the kind that were not come to, as only so many were to be.
    """

    done: int = 0
    unchanged: int = 0
    failures: dict[str, Exception] = field(default_factory=dict)
    more: bool = False


async def do_to(
    rows: Sequence[RunRow],
    act: Callable[[RunRow], Awaitable[bool]],
    tally: Tally,
    watch: Callable[[Tally], bool] | None = None,
) -> bool:
    """Do something to runs, and count what became of them; False if it was stopped.

    Args:
        rows: the runs.
        act: does it to one; True if that has changed something.
        tally: what is counted up.
        watch: told every few runs what became of them so far; False stops it.

    Raises:
        StoreError: the store itself has failed, so it would with every other run as well.
    """

    async def one(row: RunRow) -> None:
        try:
            changed = await act(row)
        except WrongState:
            changed = False
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - told in the tally
            tally.failures[row.run_id] = error
            return
        if changed:
            tally.done += 1
        else:
            tally.unchanged += 1

    for at in range(0, len(rows), _AT_ONCE):
        results = await asyncio.gather(*map(one, rows[at : at + _AT_ONCE]), return_exceptions=True)
        for result in results:
            if result is not None:
                raise result
        if watch is not None and not watch(tally):
            tally.more = True
            return False
    return True


__all__ = ["Tally", "do_to"]
