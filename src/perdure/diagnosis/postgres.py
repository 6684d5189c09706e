"""Checks of a PostgreSQL database: each a function of what an examination shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.diagnosis.findings import Severity, finding
from perdure.diagnosis.telling import span
from perdure.model.condition import PostgresFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.diagnosis.findings import Finding
    from perdure.model.condition import Condition

_SECOND: Final = 1_000_000
CLOCK: Final = ((60 * _SECOND, Severity.BAD), (_SECOND, Severity.WARN))
"""µs by which two clocks may differ, and how bad more is."""
DEAD: Final = 10_000
"""Dead rows from which they are worth a word, if there are more of them than of live ones."""
USED: Final = 0.9
"""Share of the connections from which they run short."""
AGE: Final = 1_000_000_000
"""Transactions since the last freeze, of the two thousand million that there can be."""


def durability(of: Condition, facts: PostgresFacts) -> Iterator[Finding]:
    """Whether commits are on disk."""
    del of
    settings = facts.settings
    if settings.get("fsync", "on") != "on":
        yield finding("fsync-off", f"the server runs with fsync={settings['fsync']}")
    if settings.get("full_page_writes", "on") != "on":
        yield finding("full-page-writes-off", "the server runs with full_page_writes=off")
    if facts.synchronous_commit not in {"on", "remote_apply"}:
        yield finding("commits-not-durable", f"synchronous_commit is {facts.synchronous_commit} for Perdure")
    if settings.get("synchronous_standby_names") and not facts.sync_standbys:
        yield finding("standby-missing", "synchronous_standby_names is set, and no such standby is connected")


def sessions(of: Condition, facts: PostgresFacts) -> Iterator[Finding]:
    """Connections and what may cut them."""
    del of
    names = {"role": facts.role}
    timeout = facts.settings.get("idle_session_timeout", "0ms")
    if timeout not in {"0", "0ms"}:
        yield finding("idle-timeout", f"idle_session_timeout is {timeout}", names=names)
    if facts.sessions >= USED * facts.most_sessions:
        yield finding("connections-short", f"{facts.sessions} of {facts.most_sessions} connections are in use")
    if facts.pooled:
        yield finding("pooler", "sessions are lent by a pooler")


def clock(of: Condition, facts: PostgresFacts) -> Iterator[Finding]:
    """Whether the clocks agree."""
    del facts
    apart = of.now - of.here
    for most, severity in CLOCK:
        if abs(apart) > most:
            way = "ahead of" if apart > 0 else "behind"
            yield finding("clock-apart", f"the server's clock is {span(abs(apart))} {way} this one", severity=severity)
            break


def vacuuming(of: Condition, facts: PostgresFacts) -> Iterator[Finding]:
    """Whether what is dead is cleared away."""
    if facts.settings.get("autovacuum", "on") != "on":
        yield finding("autovacuum-off", "autovacuum is off")
    for table in facts.tables:
        if table.dead >= DEAD and table.dead > table.live:
            last = "never" if table.vacuumed_at is None else f"{span(max(0, of.now - table.vacuumed_at))} ago"
            found = (
                f"table {table.name} has {table.dead:,} dead rows and {table.live:,} live ones; last vacuumed {last}"
            )
            yield finding("dead-rows", found, about=table.name, names={"table": table.name})
    for one in facts.long:
        what = f"prepared transaction {one.program}" if one.pid == 0 else f"session {one.pid} ({one.program or '-'})"
        found = f"{what} has been in a transaction for {span(one.lasts)}, {one.state or 'active'}"
        yield finding("long-transaction", found, about=str(one.pid or one.program), names={"pid": one.pid})
    if facts.age >= AGE:
        yield finding("wraparound", f"{facts.age:,} transactions since rows were last frozen")


def locks(of: Condition, facts: PostgresFacts) -> Iterator[Finding]:
    """Who waits for whom."""
    del of
    for one in facts.waiting:
        found = f"session {one.pid} ({one.program or '-'}) has waited for a lock for {span(one.lasts)}"
        yield finding("locks-waited", found, about=str(one.pid), names={"pid": one.pid})


def rights(of: Condition, facts: PostgresFacts) -> Iterator[Finding]:
    """What the role may do."""
    names = {"role": facts.role}
    if facts.lacking:
        found = f"role {facts.role} lacks {', '.join(facts.lacking)} on its tables"
        yield finding("privileges", found, names=names)
    if of.version < of.known and not facts.may_migrate:
        found = f"role {facts.role} may not bring it up to date; have its owner apply `perdure db sql`"
        yield finding("privileges", found, names=names)


CHECKS = (durability, sessions, clock, vacuuming, locks, rights)


def check(of: Condition) -> Iterator[Finding]:
    """Everything that is wrong with a database."""
    if isinstance(of.database, PostgresFacts):
        for one in CHECKS:
            yield from one(of, of.database)


__all__ = ["CHECKS", "check"]
