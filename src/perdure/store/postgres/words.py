"""What a verb says to the server, apart from who waits for the answers: a thread, or the socket's reader."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple, TypeVar

from perdure.store.rows import Row

T = TypeVar("T")


class Ask(NamedTuple):
    """A query and its values."""

    query: str
    values: tuple[Any, ...]
    is_told: bool
    """Whether what comes next does not depend on the answer, so that both are said together."""


Words = Generator[Ask, list[Row], T]
"""What is asked, one thing after the other, each answered by rows; what is told is answered with what is asked next."""


def ask(query: str, *values: Any) -> Ask:
    """Ask a query."""
    return Ask(query, values, is_told=False)


def tell(query: str, *values: Any) -> Ask:
    """Say something whose rows, or error, are to come first in the answer to what is asked next."""
    return Ask(query, values, is_told=True)


BEGIN: Final = tell("begin")
COMMIT: Final = ask("commit")
ROLLBACK: Final = ask("rollback")
