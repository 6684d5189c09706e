"""Talks with the server that no thread waits for.

A thread that waits for the server cannot so much as begin while a busy event loop keeps the interpreter's lock, up to
some milliseconds for each question and each answer. So what every step waits for is asked by the loop itself: what it
says goes out at once, and the server works while the loop does. What does not depend on an answer is asked together
with what comes before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus

from perdure.errors import StoreBusy

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.pq.abc import PGresult

    from perdure.store.postgres.session import Session
    from perdure.store.postgres.words import Ask, Words
    from perdure.store.rows import Row

T = TypeVar("T")

_TOGETHER: Final = psycopg.capabilities.has_pipeline()
"""Whether several things can be asked before the first is answered."""


class Line(Protocol):
    """A connection that a talk has to itself."""

    @property
    def label(self) -> str:
        """What it leads to."""
        ...

    def note(self, error: psycopg.Error, /) -> None:
        """Hear what went wrong: a connection that is not to be used again is given up."""
        ...

    def talked(self, talk: ServerTalk[Any], /, *, is_clean: bool) -> None:
        """Hear that a talk is over, and whether it has left nothing open."""
        ...


class ServerTalk(Generic[T]):
    """A verb that is under way on a connection. See ``perdure.store.talk.Talk``.

    Args:
        line: the connection, which nobody else uses until this is over.
        session: what is open on it.
        words: what is said; ``None`` in the end means that the verb is not to be done so.
        done: told once the verb has been done.
        lost: told if it is not known what the server has made of it.
    """

    def __init__(
        self,
        line: Line,
        session: Session,
        words: Words[T | None],
        *,
        done: Callable[[], object] | None = None,
        lost: Callable[[], object] | None = None,
    ) -> None:
        self._line, self._session, self._words = line, session, words
        self._done, self._lost = done, lost
        self._pgconn = session.connection.pgconn
        self.fileno = self._pgconn.socket
        self.unsent = False
        self._left: list[Ask] = []
        """What is still to be said: what is told, then what is asked."""
        self._answer: list[Row] = []
        self._results: list[PGresult] = []
        self._prepares = self._is_piped = False
        self._given: T | None = None
        self._is_over = False

    def begin(self) -> bool:
        """Ask the first question; False if the server cannot be asked."""
        self._carefully(lambda: self._hear([], first=True))
        return not self._is_over

    def go_on(self) -> bool:
        """Take in what has come, and ask on; returns whether the verb is over."""
        if not self._is_over:
            self._carefully(self._take_in)
        return self._is_over

    def outcome(self) -> T:
        """What the verb gives.

        Raises:
            StoreBusy: it is to be done by the verb that waits.
        """
        if self._given is None:
            raise StoreBusy("the server has to be waited for", store=self._line.label, advice="let a thread ask it")
        return self._given

    def abandon(self) -> None:
        """End without a word."""
        if not self._is_over:
            self._end(torn=True)

    def _carefully(self, do: Callable[[], None]) -> None:
        """Do something; whatever goes wrong, the verb that waits meets it again, or finds that it is over."""
        try:
            do()
        except psycopg.Error as error:
            self._line.note(error)
            self.abandon()
        except Exception:  # noqa: BLE001 - likewise
            self.abandon()
        except BaseException:
            self.abandon()
            raise

    def _take_in(self) -> None:
        pgconn = self._pgconn
        pgconn.consume_input()
        if self.unsent:
            self.unsent = bool(pgconn.flush())
        was_end = False
        while not (self._is_over or pgconn.is_busy()):
            result = pgconn.get_result()
            if result is None:
                if not self._is_piped:
                    self._heard()
                elif was_end:
                    return
            elif result.status == ExecStatus.PIPELINE_SYNC:
                pgconn.exit_pipeline_mode()
                self._is_piped = False
                self._heard()
            else:
                self._results.append(result)
            was_end = result is None

    def _heard(self) -> None:
        """All has been answered that was asked."""
        results, self._results = self._results, []
        if self._prepares:
            self._session.prepared(results[0])
        else:
            for result in results:
                self._answer += self._session.rows(result)
        if self._left:
            self._ask()
        else:
            answer, self._answer = self._answer, []
            self._hear(answer)

    def _hear(self, answer: list[Row], *, first: bool = False) -> None:
        """Go on to what is asked next."""
        try:
            while True:
                said = next(self._words) if first else self._words.send(answer)
                first, answer = False, []
                self._left.append(said)
                if not said.is_told:
                    break
        except StopIteration as end:
            self._given = end.value
            self._end()
            if self._given is not None and self._done is not None:
                self._done()
        else:
            self._ask()

    def _ask(self) -> None:
        """Say what is left: together if that can be, else the first of it."""
        session, pgconn, left = self._session, self._pgconn, self._left
        asked = [session.encoded(ask.query, ask.values) for ask in (left if _TOGETHER else left[:1])]
        missing = next((one for one in asked if one.name is None), None)
        self._prepares = missing is not None
        if missing is not None:
            session.prepare(missing)
        elif len(asked) == 1:
            session.say(asked[0])
            del left[0]
        else:
            pgconn.enter_pipeline_mode()
            self._is_piped = True
            for one in asked:
                session.say(one)
            pgconn.pipeline_sync()
            left.clear()
        self.unsent = bool(pgconn.flush())

    def _end(self, *, torn: bool = False) -> None:
        self._is_over = True
        self._words.close()
        if torn and self._lost is not None:
            self._lost()
        try:
            is_clean = self._pgconn.transaction_status == TransactionStatus.IDLE
        except psycopg.Error:
            is_clean = False
        self._line.talked(self, is_clean=is_clean)


__all__ = ["ServerTalk"]
