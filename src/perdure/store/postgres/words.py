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
    """Whether nobody needs an answer, so that it is said together with what comes next."""


Words = Generator[Ask, list[Row], T]
"""What is asked, one thing after the other, each answered by rows; what is told is answered by none."""


def ask(query: str, *values: Any) -> Ask:
    """Ask a query."""
    return Ask(query, values, is_told=False)


def tell(query: str, *values: Any) -> Ask:
    """Say what only has an effect; an error of it is that of what comes next."""
    return Ask(query, values, is_told=True)


BEGIN: Final = tell("begin")
COMMIT: Final = ask("commit")
ROLLBACK: Final = ask("rollback")
