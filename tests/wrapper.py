"""A store around a store, for tests in which one verb does something else."""

from __future__ import annotations

from perdure.store.talk import Silent


class Wrapper(Silent):
    """A store that is as good as the one inside; of a verb nothing is begun, as it may be another one here."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    @property
    def hasty(self):
        return self.inner.hasty

    @hasty.setter
    def hasty(self, hasty):
        self.inner.hasty = hasty
