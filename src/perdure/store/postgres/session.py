"""A connection with the store's queries on it, spoken to through libpq's blocking calls.

One such call gives the interpreter's lock away once, for the whole way to the server and back. psycopg's own cursors
take it back for every packet, and each time a busy event loop may keep them waiting for some milliseconds.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format

from perdure.store.postgres.arrays import Column

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.pq.abc import PGresult

    from perdure.store.postgres.words import Words
    from perdure.store.rows import Row

T = TypeVar("T")

_BIGINT, _TEXT, _BYTEA, _UNKNOWN = 20, 25, 17, 0
_int8 = Struct(">q").pack
_FINE: Final = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK, ExecStatus.EMPTY_QUERY})


class Encoded(NamedTuple):
    """A query with its values as the protocol has them."""

    key: tuple[str, tuple[int, ...]]
    """The query's name, and the types of its values."""
    name: bytes | None
    """What it is prepared as in the session, if it is."""
    data: list[bytes | None]


class Session:
    """A connection, and the store's queries on it.

    Args:
        connection: what to speak through.
        texts: the queries by name.
        prepares: whether the session is ours to keep, so that what is prepared in it stays.
    """

    __slots__ = ("_prepared", "_prepares", "_preparing", "_texts", "connection")

    def __init__(self, connection: psycopg.Connection, texts: dict[str, bytes], *, prepares: bool) -> None:
        self.connection = connection
        self._texts = texts
        self._prepares = prepares
        self._prepared: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._preparing: tuple[tuple[str, tuple[int, ...]], bytes] | None = None

    def fetch(self, query: str, *values: Any) -> list[Row]:
        """All rows of a query."""
        return self.rows(self._execute(query, values))

    def fetch_value(self, query: str, *values: Any) -> Any:
        """The one value of a query that always has one."""
        return self.fetch(query, *values)[0][0]

    def change(self, query: str, *values: Any) -> int:
        """Execute a query for its effect; how many rows it concerned."""
        return self._check(self._execute(query, values)).command_tuples or 0

    def hear(self, words: Words[T]) -> T:
        """Say what there is to say, and wait for each answer; returns what comes of it."""
        answer: list[Row] = []
        try:
            said = next(words)
            while True:
                answer += self.fetch(said.query, *said.values)
                if said.is_told:
                    said = next(words)
                else:
                    said, answer = words.send(answer), []
        except StopIteration as end:
            value: T = end.value
            return value

    def control(self, query: str) -> None:
        """Begin or end something."""
        self.script(self._texts[query])

    def script(self, text: bytes) -> None:
        """Execute a text of several statements."""
        self._check(self.connection.pgconn.exec_(text))

    # -- asked without waiting, through a talk

    def encoded(self, query: str, values: tuple[Any, ...]) -> Encoded:
        """A query as it is sent; without a name it is to be prepared first."""
        kinds, data = _encoded(values)
        key = query, tuple(kinds)
        return Encoded(key, self._prepared.get(key), data)

    def prepare(self, asked: Encoded) -> None:
        """Have a query prepared; ``prepared`` is to be called with the answer."""
        query, kinds = asked.key
        self._preparing = asked.key, self._new_name(query)
        self.connection.pgconn.send_prepare(self._preparing[1], self._texts[query], kinds)

    def prepared(self, result: PGresult) -> None:
        """Take in the answer to ``prepare``.

        Raises:
            psycopg.Error: it was not.
        """
        self._check(result)
        assert self._preparing is not None
        (key, name), self._preparing = self._preparing, None
        self._prepared[key] = name

    def say(self, asked: Encoded) -> None:
        """Ask a query that is prepared."""
        assert asked.name is not None
        formats = [Format.BINARY] * len(asked.data)
        self.connection.pgconn.send_query_prepared(asked.name, asked.data, formats, Format.BINARY)

    def rows(self, result: PGresult) -> list[Row]:
        """All rows of an answer.

        Raises:
            psycopg.Error: it is none.
        """
        self._check(result)
        if not result.ntuples:
            return []
        transformer = Transformer(self.connection)
        transformer.set_pgresult(result)
        return transformer.load_rows(0, result.ntuples, tuple)

    def alone(self, work: Callable[[], T]) -> T:
        """Do something inside a transaction so that it can fail alone."""
        self.control("savepoint")
        try:
            done = work()
        except BaseException:
            self.control("rollback_to_savepoint")
            raise
        self.control("release_savepoint")
        return done

    def _execute(self, query: str, values: tuple[Any, ...]) -> PGresult:
        key, name, data = self.encoded(query, values)
        _, kinds = key
        formats = [Format.BINARY] * len(data)
        pgconn = self.connection.pgconn
        if not self._prepares:
            return pgconn.exec_params(self._texts[query], data, kinds, formats, Format.BINARY)
        if name is None:
            name = self._new_name(query)
            self._check(pgconn.prepare(name, self._texts[query], kinds))
            self._prepared[key] = name
        # Nulls are taken here as well, though the annotation does not say so.
        return pgconn.exec_prepared(name, data, formats, Format.BINARY)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    def _new_name(self, query: str) -> bytes:
        return b"%s_%d" % (query.encode(), len(self._prepared))

    def _check(self, result: PGresult) -> PGresult:
        if result.status in _FINE:
            return result
        if self.connection.pgconn.status != ConnStatus.OK:
            detail = result.error_message.decode("utf-8", "replace").strip()
            raise psycopg.OperationalError(detail or "the connection is lost")
        raise error_from_result(result)


def _encoded(values: tuple[Any, ...]) -> tuple[list[int], list[bytes | None]]:
    """Values as the protocol has them: the types they are sent as, and their bytes.

    Raises:
        struct.error: a number has more than 64 bits.
        TypeError: a value is of no type that a query takes.
    """
    kinds: list[int] = []
    data: list[bytes | None] = []
    for value in values:
        if isinstance(value, Column):
            kinds.append(value.oid)
            data.append(value.data)
        elif value is None:
            kinds.append(_UNKNOWN)
            data.append(None)
        elif isinstance(value, int):
            kinds.append(_BIGINT)
            data.append(_int8(value))
        elif isinstance(value, bytes):
            kinds.append(_BYTEA)
            data.append(value)
        elif isinstance(value, str):
            kinds.append(_TEXT)
            data.append(value.encode())
        else:
            raise TypeError(f"no query takes a {type(value).__name__}")
    return kinds, data
