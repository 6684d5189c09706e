"""Trouble: what waits for a person, what the examination of the store has found, and the store itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perdure import describe
from perdure.diagnosis.doctor import diagnose
from perdure.errors import StoreError
from perdure.model.condition import PostgresFacts, SqliteFacts
from perdure.model.counting import counts
from perdure.model.records import Status
from perdure.store.protocol import Filter
from perdure.web.asking import Flag
from perdure.web.pages import Page
from perdure.web.schedules import is_served, summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.diagnosis.doctor import Report
    from perdure.store.protocol import Store
    from perdure.web.lately import Lately
    from perdure.web.reading import Reader

BLOCKED: Final = 20
"""Blocked runs that are shown, the latest."""
SCHEDULES: Final = 500
"""Schedules that are looked at."""
_KINDS: Final[dict[type, str]] = {SqliteFacts: "SQLite", PostgresFacts: "PostgreSQL"}


def trouble_page(reader: Reader) -> Page:
    """Make the page."""

    async def gather(namespace: str, query: Mapping[str, Any]) -> dict[str, Any]:
        report = await reader.examined(deep=query["deep"])
        told = _examination(reader, report, namespace)

        def read(store: Store) -> dict[str, Any]:
            return _waits(store, namespace, reader.lately)

        try:
            found = await reader.read(read)
        except StoreError:
            if report is None:
                raise
            found = {"now": None, "blocked": [], "schedules": [], "counts": None, "namespaces": []}
        if reader.is_fixed:
            found["namespaces"] = [namespace]
        return {**told, **found, "deep": query["deep"], "url": reader.name}

    return Page(
        "/trouble",
        "examineStore",
        "What waits for a person, what an examination of the store has found and what to do, and how the store is.",
        lambda _: {},
        "Trouble",
        "trouble.html",
        parameters=(Flag("deep"),),
        gather=gather,
    )


def _examination(reader: Reader, report: Report | None, namespace: str) -> dict[str, Any]:
    """Return what the examination says; where one namespace alone is shown, nothing of the others."""
    if report is None:
        return {"codeless": [], "kind": None, "report": None}
    inside = report.condition.contents
    backlogs = () if inside is None else inside.backlogs
    codeless = [describe.backlog(one) for one in backlogs if not one.served and one.namespace == namespace]
    shown = diagnose(replace(report.condition, contents=None)) if reader.is_fixed else report
    with describe.redacting(reader.redaction):
        told = describe.report(shown)
    return {"codeless": codeless, "kind": _KINDS.get(type(report.condition.database)), "report": told}


def _waits(store: Store, namespace: str, lately: Lately) -> dict[str, Any]:
    blocked = store.list_runs(Filter(namespace=namespace, status=(Status.BLOCKED,), limit=BLOCKED))
    served = store.served()
    schedules = [
        told
        for row in store.list_schedules(namespace, "", SCHEDULES)
        if row.fault or describe.schedule(row)["fault"] or (row.next_at is not None and not is_served(row, served))
        for told in [summary(store, row, served)]
    ]
    return {
        "now": describe.instant(store.now()),
        "blocked": [describe.row(row) for row in blocked],
        "schedules": schedules,
        "counts": describe.counts(counts(lately.count(store, Filter(namespace=namespace), None), exact=True)),
        "namespaces": store.list_namespaces(),
    }


__all__ = ["trouble_page"]
