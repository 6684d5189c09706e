"""What a store suffers from: a pure function of what an examination shows, and the examination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.diagnosis import contents, postgres, sqlite
from perdure.diagnosis.findings import Severity, finding, worst
from perdure.store.open import examine_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perdure.diagnosis.findings import Finding
    from perdure.model.condition import Condition

_FAULTS = {
    "store_unreachable": "store-unreachable",
    "store_gone": "store-unreachable",
    "store_read_only": "store-read-only",
    "store_busy": "store-busy",
    "store_corrupt": "store-damaged",
    "store_unsafe": "store-unsafe",
    "store_too_new": "schema-newer",
    "not_a_store": "store-foreign",
}


@dataclass(frozen=True, slots=True)
class Report:
    """What a store suffers from.

    Attributes:
        condition: what the examination has shown.
        findings: what that means, the worst first.
    """

    condition: Condition
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Severity:
        """How bad the worst finding is."""
        return worst(self.findings)


def doctor(target: str | Path, *, deep: bool = False) -> Report:
    """Examine the store at ``target``, also one that is in trouble, and say what is wrong and what to do.

    Args:
        target: as for ``Engine``.
        deep: whether to read all of it, which takes as long as that takes.

    Raises:
        StoreUnreachable: that is no address of a store.
    """
    return diagnose(examine_store(target, deep=deep))


def diagnose(condition: Condition) -> Report:
    """Say what a condition means."""
    found = [*about_database(condition), *contents.check(condition)]
    return Report(condition, tuple(sorted(found, key=lambda one: -one.severity)))


def about_database(condition: Condition) -> Iterator[Finding]:
    """Say what a condition means for the database alone, whatever is in it."""
    yield from _faults(condition)
    yield from _schema(condition)
    yield from sqlite.check(condition)
    yield from postgres.check(condition)


def _faults(of: Condition) -> Iterator[Finding]:
    for fault in of.faults:
        made = finding(_FAULTS.get(fault.code, "store-fault"), fault.message)
        yield made._replace(advice=fault.advice) if fault.advice else made


def _schema(of: Condition) -> Iterator[Finding]:
    if of.database is None:
        return
    if of.version == 0:
        yield finding("schema-missing", "there is no store in it yet")
    elif of.least > of.known:
        yield finding("schema-newer", f"it has schema {of.version}; this Perdure knows {of.known}")
    elif of.version < of.known:
        yield finding("schema-older", f"it has schema {of.version} of {of.known}")
    if of.missing:
        names = {"indexes": ", ".join(of.missing)}
        yield finding("indexes-missing", f"{len(of.missing)} indexes are missing or unusable", names=names)


__all__ = ["Report", "about_database", "diagnose", "doctor"]
