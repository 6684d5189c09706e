"""``perdure tail``: what is written in a store, of all runs, as it is written."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import click

from perdure import describe
from perdure.cli.choosing import filter_options
from perdure.cli.main import say
from perdure.cli.opening import existing_store
from perdure.cli.options import debug_option, json_option, print_json, screen, store_option
from perdure.cli.render import Column, Part
from perdure.cli.telling import Teller
from perdure.model.records import Status
from perdure.store.protocol import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.cli.render import Cell
    from perdure.model.records import Event, RunRow
    from perdure.store.protocol import Filter, Store

TICK = 0.1
"""Seconds between two looks for news."""
FOLLOWED = 500
"""Runs that are followed at once: the newest."""
SLACK = 1_000_000
"""How far (µs) clocks of workers may differ."""
REMEMBERED = 5000
"""Runs of which it is known how much was shown."""

_COLUMNS = (Column("TIME"), Column("RUN", flexible=True), Column("EVENT"), Column("STEP", flexible=True),
            Column("", flexible=True))  # fmt: skip
_OPEN = tuple(status for status in Status if not status.terminal)


class Follower:
    """Follows the logs of all runs of a kind at once; of those that have ended before it began, nothing is shown."""

    def __init__(self, store: Store, where: Filter) -> None:
        self._store = store
        self._where = where
        self._since = store.now()
        self._shown: dict[int, int] = {}
        """By run: up to which seq its log was shown."""
        self._open: dict[int, RunRow] = {}
        self.is_full = False
        """Whether there are more than can be followed."""

    def begin(self, last: int) -> Iterator[tuple[RunRow, Event]]:
        """Take up all runs that have not ended, and iterate over the last few events of them, oldest first."""
        ended = tuple(status for status in Status if status.terminal)
        before = replace(self._where, status=ended, created_after=self._since - 2 * SLACK, limit=FOLLOWED)
        self._shown = {row.run_key: row.seq for row in self._store.list_runs(before)}
        found: deque[tuple[RunRow, Event]] = deque(maxlen=last or 1)
        for row in self._rows():
            log = list(self._news(row, max(0, row.seq - last - 1)))
            found.extend((row, event) for event in log)
        yield from sorted(found, key=_by_time) if last else ()

    def news(self) -> Iterator[tuple[RunRow, Event]]:
        """Iterate over what was written since the last time, oldest first."""
        found: list[tuple[RunRow, Event]] = []
        before = self._open
        rows = {row.run_key: row for row in self._rows()}
        gone = [key for key in before if key not in rows]
        self._open = rows
        for row in [*self._store.get_runs(gone), *rows.values()]:
            found += [(row, event) for event in self._news(row, self._shown.get(row.run_key, 0))]
        yield from sorted(found, key=_by_time)

    def _rows(self) -> list[RunRow]:
        """Runs that may have news: those that have not ended, and those that were created since the last look."""
        store, where = self._store, replace(self._where, limit=FOLLOWED)
        status = _OPEN if where.status is None else tuple(one for one in where.status if not one.terminal)
        rows = store.list_runs(replace(where, status=status)) if status else []
        self.is_full = len(rows) == FOLLOWED
        ended = tuple(one for one in where.status or Status if one.terminal)
        now = store.now()
        if ended and where.created_after is None:
            # One may have begun and ended between two looks.
            late = store.list_runs(replace(where, status=ended, created_after=self._since))
            rows += [row for row in late if row.run_key not in self._shown or row.run_key in self._open]
        self._since = now - SLACK
        return list({row.run_key: row for row in reversed(rows)}.values())

    def _news(self, row: RunRow, after: int) -> Iterator[Event]:
        self._shown.setdefault(row.run_key, after)
        while page := self._store.read_events(row.run_key, self._shown[row.run_key], PAGE):
            yield from page
            self._shown[row.run_key] = page[-1].seq
        while len(self._shown) > REMEMBERED:
            oldest = next(iter(self._shown))
            if oldest in self._open:
                break
            del self._shown[oldest]


def _by_time(pair: tuple[RunRow, Event]) -> tuple[int, int, int]:
    row, event = pair
    return event.at, row.run_key, event.seq


@click.command(epilog="Example: perdure tail --workflow fulfil")
@filter_options
@click.option(
    "--last", type=click.IntRange(0, 1000), default=10, show_default=True, help="Begin with so many events of before."
)
@store_option
@json_option
@debug_option
def tail(where: Filter, *, last: int, store: str | None, as_json: bool) -> NoReturn:
    """Follow the event logs of all runs at once, until Ctrl-C.

    With --json one event a line. Followed are the newest 500 runs that have not ended.
    """
    out = screen()
    with existing_store(store) as opened:
        follower = Follower(opened, where)
        tellers: dict[int, Teller] = {}
        is_titled = told = False
        found = list(follower.begin(last))
        while True:
            if as_json:
                for row, event in found:
                    print_json({"run_id": row.run_id, "workflow": row.workflow, **describe.event(event)}, one_line=True)
            elif found:
                rows = [_line(row, event, tellers, opened.now()) for row, event in found]
                titles = _COLUMNS if not is_titled else [column._replace(title="") for column in _COLUMNS]
                out.table(titles, rows)
                is_titled = True
            if follower.is_full and not told:
                told = True
                say(
                    f"more than {FOLLOWED} runs have not ended: the newest are followed",
                    "choose by --workflow",
                )
            while not opened.changed():
                time.sleep(TICK)
            found = list(follower.news())


def _line(row: RunRow, event: Event, tellers: dict[int, Teller], now: int) -> tuple[Cell, ...]:
    teller = tellers.setdefault(row.run_key, Teller(now))
    _, *told = teller.row(event)
    at, *rest = told
    if row.status.terminal:
        tellers.pop(row.run_key, None)
    return (at, Part(row.run_id, "strong"), *rest)


__all__ = ["Follower", "tail"]
