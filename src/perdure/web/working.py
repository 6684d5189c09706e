"""How far it is what is done to many runs, as it is shown, and stopping it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from perdure import describe
from perdure.web.changes import Change, Changed
from perdure.web.jobs import Job
from perdure.web.pages import Page
from perdure.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.web.asking import Asked
    from perdure.web.changes import Order
    from perdure.web.reading import Reader


def new_job(order: Order, verb: str, number: int, asked: dict[str, Any]) -> Job:
    """Return a job that is to begin."""
    began_at = order.operations.clock.now()
    return Job(secrets.token_hex(8), order.namespace, verb, order.by.name, number, asked, began_at)


def _job(reader: Reader, job: str, namespace: str) -> Job:
    """Return a job.

    Raises:
        Problem: it is not known here.
    """
    found = reader.jobs.get(job, namespace)
    if found is None:
        raise Problem(
            404,
            "job_not_found",
            "this dashboard does nothing of that kind",
            "it ends with the dashboard's process: what it did is in the runs' logs, and doing it again does the rest",
        )
    return found


def _told(reader: Reader, job: Job) -> dict[str, Any]:
    tally = job.tally
    with describe.redacting(reader.redaction):
        told = describe.tally(tally.done, tally.unchanged, tally.failures, more=tally.more)
    return {
        "job": job.job,
        "verb": job.verb,
        "by": job.by,
        "number": job.number,
        "began_at": describe.instant(job.began_at),
        "state": job.state,
        "failure": job.failure,
        "tally": told,
    }


def job_page(reader: Reader) -> Page:
    """Make the page of what is done to many runs."""

    def read(asked: Asked) -> dict[str, Any]:
        job = _job(reader, asked.about, asked.namespace)
        return {"now": describe.instant(asked.store.now()), "job": _told(reader, job), "asked": job.asked}

    def draw(data: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
        job = data["job"]
        tally = job["tally"]
        seen = tally["done"] + tally["unchanged"] + len(tally["failures"])
        share = 100 if not job["number"] else min(100, 100 * seen // job["number"])
        return {"do": job["verb"], "tally": tally, "listed": data["asked"], "seen": seen, "share": share}

    return Page(
        "/jobs",
        "getJob",
        "Something that is done to many runs: how far it is, and what became of them.",
        read,
        "JobPage",
        "many.html",
        of="job",
        draw=draw,
    )


async def _stop(order: Order) -> Changed:
    job = _job(order.reader, order.about, order.namespace)
    job.is_asked_to_stop = job.is_asked_to_stop or not job.has_ended
    return Changed("job-stopped", {"job": _told(order.reader, job)}, "/jobs", job.job)


STOP: Final = Change(
    "stop-job",
    "stopJob",
    "Stop what is done to many runs; what was done stays.",
    {},
    (),
    "JobDone",
    _stop,
    of="job",
)

__all__ = ["STOP", "job_page", "new_job"]
