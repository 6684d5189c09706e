"""A store that is asked, where that can be, without a thread that waits."""

from __future__ import annotations

import selectors

from perdure.errors import StoreBusy
from tests.wrapper import Wrapper

PATIENCE = 10


class TalkingStore(Wrapper):
    """Creates, claims and commits as an event loop does, and counts how often that was enough."""

    def __init__(self, inner):
        super().__init__(inner)
        self.talked = 0

    def create_runs(self, new, /, **options):
        return self._asked(self.inner.start_create(new, **options), lambda: self.inner.create_runs(new, **options))

    def commit(self, items, *, wait=True):
        return self._asked(self.inner.start_commit(items), lambda: self.inner.commit(items, wait=wait))

    def claim_runs(self, worker_key, routes, limit, *, only=None, **options):
        talk = None if only is not None else self.inner.start_claims(worker_key, routes, limit, **options)
        return self._asked(talk, lambda: self.inner.claim_runs(worker_key, routes, limit, only=only, **options))

    def _asked(self, talk, otherwise):
        if talk is None:
            return otherwise()
        finish(talk)
        try:
            given = talk.outcome()
        except StoreBusy:
            return otherwise()
        self.talked += 1
        return given


def finish(talk):
    """Let a talk go on until it is over."""
    with selectors.DefaultSelector() as selector:
        selector.register(talk.fileno, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while True:
            selector.modify(talk.fileno, selectors.EVENT_READ | (selectors.EVENT_WRITE if talk.unsent else 0))
            assert selector.select(PATIENCE), "the server says nothing"
            if talk.go_on():
                return
