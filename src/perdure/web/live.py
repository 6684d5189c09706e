"""Word that something has changed, as it happens: server-sent events, with nothing in them but that.

A page that hears it asks for itself again, so that what it shows is what a reload would show. Whoever hears nothing, as
something between holds events back, asks every few seconds: the floor.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse

from perdure.errors import PerdureError
from perdure.operations.holding import live_workers
from perdure.web.problems import Problem
from perdure.web.spaces import namespace_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request
    from starlette.responses import Response

    from perdure.store.protocol import Store
    from perdure.web.reading import Reader

LISTENERS: Final = 100
"""Pages that listen at a time; others ask."""
TICK: Final = 0.25
"""Seconds between two looks at the store while somebody listens."""
REST: Final = 0.6
"""Seconds after word of a change in which no other is given."""
LOOK: Final = 1.0
"""Seconds after which a run is looked at in any case: that its worker has died is written nowhere."""
LONGEST: Final = 15.0
"""Seconds after which a stream ends and the page asks for another: a server that stops may wait for it."""


class Live:
    """Looks whether the store has changed, once for all who listen, and only while somebody does."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._listeners = 0
        self._changes = 0
        self._turn = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = False

    async def stream(self, request: Request) -> Response:
        """Answer with a stream of changes: of one run, if one is named, else of anything.

        Raises:
            Problem: too many listen already.
        """
        if self._listeners >= LISTENERS or self._ended:
            raise Problem(
                503, "too_many_listeners", f"{LISTENERS} pages listen already", "this one asks every few seconds"
            )
        run_id = request.query_params.get("run", "")
        return StreamingResponse(
            self._say(run_id, namespace_of(request)),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    async def _say(self, run_id: str, namespace: str) -> AsyncGenerator[bytes]:
        self._listeners += 1
        try:
            self._begin()
            heard = self._changes
            seen = await self._state(run_id, namespace)
            yield b"retry: 250\nevent: hello\ndata:\n\n"
            loop = asyncio.get_running_loop()
            end = loop.time() + LONGEST
            while not self._ended and (left := end - loop.time()) > 0:
                changed = await self._change(heard, min(left, LOOK) if run_id else left)
                heard = self._changes
                state = await self._state(run_id, namespace)
                if self._ended or not (state != seen if run_id else changed):
                    continue
                seen = state
                yield b"event: changed\ndata:\n\n"
                await asyncio.sleep(REST)
        finally:
            self._listeners -= 1

    async def _change(self, heard: int, timeout: float) -> bool:
        """Wait until there were more changes than were heard of; False if there is none in time."""
        if self._changes == heard:
            try:
                await asyncio.wait_for(self._turn.wait(), max(timeout, 0))
            except TimeoutError:
                return False
        return True

    async def _state(self, run_id: str, namespace: str) -> object:
        """Return what differs whenever a run's page would."""
        if not run_id:
            return None

        def read(store: Store) -> object:
            row = store.get_run(run_id, namespace)
            if row is None:
                return None
            log = self._reader.logs.of(store, row)
            dead = row.worker_key is not None and row.worker_key not in live_workers(store)
            return row.epoch, row.status, row.inbox, row.worker_key, dead, log.view.seq

        try:
            return await self._reader.read(read)
        except PerdureError as error:
            return error.code

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        was_away, known = False, self._reader.changes
        while self._listeners and not self._ended:
            try:
                await self._reader.read(lambda _: None)
                is_away = False
            except PerdureError:
                is_away = True
            if self._reader.changes != known or was_away != is_away:
                self._tell()
            was_away, known = is_away, self._reader.changes
            await asyncio.sleep(TICK)

    def _tell(self) -> None:
        self._changes += 1
        turn, self._turn = self._turn, asyncio.Event()
        turn.set()

    def end(self) -> None:
        """Let all who listen go; may be called from a signal handler."""
        self._ended = True
        with suppress(RuntimeError):  # the loop runs no more, so nobody listens
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._tell)

    async def close(self) -> None:
        """Let all who listen go, and look no more."""
        self._ended = True
        self._tell()
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking


__all__ = ["Live"]
