"""A store around a store, for tests in which one verb does something else."""

from __future__ import annotations


class Wrapper:
    """A store that is as good as the one inside."""

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
