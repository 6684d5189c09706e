"""A protection of Perdure, the change that switches it off, and the test that must notice."""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """A protection switched off.

    Attributes:
        protection: what is lost.
        file: the file to change, below ``src/perdure``.
        old: text that is in it exactly once.
        new: what takes its place.
        test: the test that fails then, as pytest names it, below ``tests``.
        slow: takes several seconds; left to the storm.
    """

    protection: str
    file: str
    old: str
    new: str
    test: str
    slow: bool = False
