"""A store around a store, for tests in which one verb does something else."""

from __future__ import annotations


class Wrapper:
    """A store that is as good as the one inside."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def start_create(self, *_args, **_options):
        """Nothing, so that the verb itself is asked, which may be another one here."""

    def start_commit(self, _items):
        """Likewise."""

    def start_claims(self, *_args, **_options):
        """Likewise."""

    @property
    def hasty(self):
        return self.inner.hasty

    @hasty.setter
    def hasty(self, hasty):
        self.inner.hasty = hasty
