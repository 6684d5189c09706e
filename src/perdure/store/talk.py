"""Verbs that no thread waits for: whoever has an event loop watches a socket, and lets the verb go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.records import Claim, CommitItem, Created, InboxRow, NewRun, RunRow, Verdict
    from perdure.store.route import Route

T_co = TypeVar("T_co", covariant=True)


class Talk(Protocol[T_co]):
    """A verb under way. It is to be let go on, or abandoned, from one thread only, until it is over."""

    @property
    def fileno(self) -> int:
        """The socket: when it can be read, the verb may be able to go on."""
        ...

    @property
    def unsent(self) -> bool:
        """Whether something is left to be sent, so that it can go on when the socket can be written too."""
        ...

    def go_on(self) -> bool:
        """Take in what has come, and ask on. Never waits; returns whether the verb is over."""
        ...

    def outcome(self) -> T_co:
        """What the verb gives, once it is over.

        Raises:
            StoreBusy: it is to be done by the verb that waits, which finds what this one may have done.
        """
        ...

    def abandon(self) -> None:
        """End without a word: what is not committed is undone. To be called once the socket is no longer watched."""
        ...


class Talking(Protocol):
    """The verbs of a store that can be begun without a thread that waits for their end."""

    def start_create(
        self, new: Sequence[NewRun], /, *, claim_for: int | None = None, facts: bytes = b"", now: int | None = None
    ) -> Talk[list[Created]] | None:
        """Begin what ``create_runs`` does; None where that has to wait for something, as it may for most runs.

        ``create_runs`` with the same runs is the remedy likewise, which finds what is there.
        """
        ...

    def start_commit(self, items: Sequence[CommitItem], /) -> Talk[list[Verdict]] | None:
        """Begin what ``commit`` does; None where that has to wait for something, as it may for most items.

        ``commit`` with the same items is the remedy for whatever goes wrong: what is written already is found there.
        """
        ...

    def start_claims(
        self, worker_key: int, routes: Sequence[Route], limit: int, /, *, facts: bytes = b"", now: int | None = None
    ) -> Talk[list[Claim]] | None:
        """Begin what ``claim_runs`` does; None where that has to wait for something, or where there is much to read.

        ``claim_runs`` of the same worker is the remedy likewise: it gives what was claimed without its being told.
        """
        ...

    def start_urgent(self, routes: Sequence[Route], limit: int, /) -> Talk[list[int]] | None:
        """Begin what ``urgent`` does; None where that has to wait for something."""
        ...

    def start_unread(self, worker_key: int, /) -> Talk[list[tuple[int, int, list[InboxRow]]]] | None:
        """Begin what ``unread`` does; None likewise."""
        ...

    def start_over(self, run_keys: Sequence[int], limit: int, /) -> Talk[list[tuple[int, RunRow | None]]] | None:
        """Begin what ``over`` does; None likewise."""
        ...


class Silent:
    """Begins nothing: the verb itself is to be asked."""

    def start_create(self, *_asked: object, **_options: object) -> None:
        """Nothing."""

    def start_commit(self, *_asked: object) -> None:
        """Nothing."""

    def start_claims(self, *_asked: object, **_options: object) -> None:
        """Nothing."""

    def start_urgent(self, *_asked: object) -> None:
        """Nothing."""

    def start_unread(self, *_asked: object) -> None:
        """Nothing."""

    def start_over(self, *_asked: object) -> None:
        """Nothing."""


__all__ = ["Silent", "Talk", "Talking"]
