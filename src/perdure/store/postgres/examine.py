"""An examination of a database, also one that is in trouble: nothing is made or changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perdure.clock import SystemClock
from perdure.errors import StoreError
from perdure.model.condition import Condition, Fault, PostgresFacts, Session, Table
from perdure.store.postgres import reading, runs, schedules
from perdure.store.postgres.address import parse_address
from perdure.store.postgres.connect import Connector
from perdure.store.postgres.connection import Writer
from perdure.store.postgres.queues import list_queues
from perdure.store.postgres.schema import MIGRATIONS, look
from perdure.store.postgres.standing import signs
from perdure.store.protocol import PAGE
from perdure.store.surveying import fault_of, survey, wanted_indexes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perdure.model.condition import Contents
    from perdure.model.queues import QueueUsage
    from perdure.model.records import Event, RunRow
    from perdure.model.schedules import ScheduleRow
    from perdure.model.standing import Sign
    from perdure.store.postgres import session
    from perdure.store.surveying import Asked

LONG: Final = 60_000_000
"""µs from which a transaction is long."""
WAITED: Final = 5_000_000
"""µs from which a session waits for long."""


def examine(url: str, *, deep: bool = False, long: int = LONG, waited: int = WAITED) -> Condition:
    """Examine the store at ``url``. Never raises what it can tell.

    Args:
        url: where it is.
        deep: whether to look for what takes long to find.
        long: from when on (µs) a transaction is told of.
        waited: from when on (µs) a session that waits for a lock is told of.
    """
    here, known = SystemClock().now(), len(MIGRATIONS)
    label = "postgresql://"
    try:
        address = parse_address(url)
        label = address.label
        # Asked for less than a store promises, so that what is amiss can be told rather than refused.
        connector = Connector(address, "process")
        writer = Writer(connector, connector.open())
    except StoreError as error:
        return Condition(label, here, here, known=known, faults=(fault_of(error),))
    seen = Condition(label, here, here, known=known)
    try:
        if not connector.pooled:
            writer.read(lambda one: one.control("examine_session"))
        before = SystemClock().now()
        now: int = writer.read(lambda one: one.fetch_value("clock"))
        here = (before + SystemClock().now()) // 2
        facts = writer.read(lambda one: _facts(one, address.schema, long, waited, pooled=connector.pooled))
        told = writer.read(lambda one: _told(one, address.schema, facts))
        # Its version is not known yet; what is found by then is told even if that cannot be had.
        seen = replace(seen, now=now, here=here, version=known, facts=told, database=facts)
        return _looked_into(writer, address.schema, seen, deep=deep)
    except StoreError as error:
        return replace(seen, faults=(fault_of(error),))
    finally:
        writer.close()


def _looked_into(writer: Writer, schema: str, seen: Condition, *, deep: bool) -> Condition:
    found = writer.read(lambda one: look(one, schema, seen.store))
    seen = replace(seen, version=found.version, least=found.least_version)
    if found.version < seen.known:
        return seen
    usable = {name for (name,) in writer.read(lambda one: one.fetch("list_indexes", schema))}
    seen = replace(seen, missing=tuple(sorted(wanted_indexes(MIGRATIONS) - usable)))
    if found.least_version > seen.known:
        return seen
    contents, faults = _contents(writer, seen.now, deep=deep)
    return replace(seen, contents=contents, faults=faults)


def _contents(writer: Writer, now: int, *, deep: bool) -> tuple[Contents | None, tuple[Fault, ...]]:
    try:
        return writer.read(lambda one: survey(_Asked(one, now), now, deep=deep)), ()
    except StoreError as error:
        return None, (fault_of(error),)
    except Exception as error:  # noqa: BLE001 - a store may hold anything
        return None, (Fault("store_corrupt", f"what it holds cannot be understood: {error!r}", "perdure verify"),)


def _facts(one: session.Session, schema: str, long: int, waited: int, *, pooled: bool) -> PostgresFacts:
    health = one.fetch("health", schema)[0]
    sessions, most, standbys, age = one.fetch("sessions")[0]
    synchronous = one.fetch("synchronous_disk")[0][0]
    lacking = one.fetch("lacking_privileges", schema)
    return PostgresFacts(
        settings=dict(one.fetch("settings")),
        synchronous_commit=synchronous,
        pooled=pooled,
        sessions=sessions,
        most_sessions=most,
        sync_standbys=standbys,
        tables=tuple(Table(*row) for row in one.fetch("tables", schema)),
        long=tuple(Session(*row) for row in one.fetch("long_transactions", long)),
        waiting=tuple(Session(*row) for row in one.fetch("waiting_sessions", waited)),
        age=age,
        lacking=tuple(sorted({privilege for (privilege,) in lacking})),
        may_migrate=health[5],
        role=str(health[2]),
    )


def _told(one: session.Session, schema: str, facts: PostgresFacts) -> tuple[tuple[str, str], ...]:
    server, database, role, *_ = one.fetch("health", schema)[0]
    size = sum(table.size for table in facts.tables)
    return (
        ("server", f"PostgreSQL {server}"),
        ("database", str(database)),
        ("schema", schema),
        ("role", str(role)),
        ("size", f"{size:,} bytes, indexes included"),
        ("synchronous_commit", f"{facts.settings.get('synchronous_commit')} (commits of Perdure: on)"),
        ("connections", f"{facts.sessions} of {facts.most_sessions}"),
        ("sessions", "lent by a pooler: leases only" if facts.pooled else "held: dead workers are seen at once"),
    )


def asked(one: session.Session, now: int) -> Asked:
    """Return what answers to a survey."""
    return _Asked(one, now)


class _Asked:
    """What answers to a survey: see ``perdure.store.surveying.Asked``."""

    def __init__(self, one: session.Session, now: int) -> None:
        self._session, self._now = one, now

    def fetch(self, query: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        return self._session.fetch(query, *values)

    def signs(self) -> dict[int, Sign]:
        return signs(self._session)

    def queues(self, namespace: str) -> list[QueueUsage]:
        return list_queues(self._session, namespace, self._now)

    def schedules(self, namespace: str) -> list[ScheduleRow]:
        return schedules.list_schedules(self._session, namespace, "", PAGE)

    def runs(self, run_keys: Sequence[int]) -> Iterable[RunRow]:
        found = runs.get_runs(self._session, run_keys)
        return [found[key] for key in run_keys if key in found]

    def events(self, run_key: int, after: int, limit: int) -> list[Event]:
        return reading.read_events(self._session, run_key, after, limit)


__all__ = ["asked", "examine"]
