"""Tags: runs are found by them, with whatever else is asked for."""

# ruff: noqa: D103 - a case's name is its law

from __future__ import annotations

from typing import Any

from perdure.model.payloads import note
from perdure.model.records import Status
from perdure.store.listing import FEW
from perdure.store.protocol import Filter
from perdure.testing.store_suite.bench import Bench, case


def _tagged(bench: Bench, run_id: str, tags: dict[str, str], **changes: Any) -> None:
    bench.store.create_runs([bench.new(run_id, meta=note(tags=tags), **changes)])


def _listed(bench: Bench, *tags: tuple[str, str], **where: Any) -> str:
    return "".join(row.run_id for row in bench.store.list_runs(Filter(tags=tags, **where)))


@case
def runs_are_found_by_all_of_their_tags(bench: Bench) -> None:
    _tagged(bench, "a", {"customer": "42", "city": "Bern"})
    _tagged(bench, "b", {"customer": "42", "city": "Köln"})
    _tagged(bench, "c", {"customer": "4", "city": "Köln"})
    bench.create("d")
    bench.create("e", meta=note(other=True))
    assert _listed(bench, ("customer", "42")) == "ba"
    assert _listed(bench, ("city", "Köln")) == "cb"
    assert _listed(bench, ("customer", "42"), ("city", "Köln")) == "b"
    assert _listed(bench, ("city", "Köln"), ("customer", "42")) == "b"
    assert _listed(bench, ("customer", "4"), ("city", "Bern")) == ""
    assert _listed(bench, ("customer", "Köln")) == _listed(bench, ("nobody", "42")) == ""
    assert _listed(bench) == "edcba"


@case
def tags_go_with_every_other_filter(bench: Bench) -> None:
    tags = {"team": "red"}
    _tagged(bench, "a", tags)
    _tagged(bench, "b", tags, workflow="other")
    _tagged(bench, "c", tags, namespace="n")
    _tagged(bench, "d", tags)
    bench.create("e")
    row = bench.store.get_run("d")
    assert row is not None
    _tagged(bench, "f", tags, parent_key=row.run_key)
    held = bench.retake(row.run_key)
    held.commit(held.end(Status.FAILED))
    red = ("team", "red")
    assert _listed(bench, red) == "fdba"
    assert _listed(bench, red, namespace="n") == "c"
    assert _listed(bench, red, workflow="greet") == "fda"
    assert _listed(bench, red, workflow="nobody") == ""
    assert _listed(bench, red, status=(Status.FAILED,)) == "d"
    assert _listed(bench, red, status=(Status.FAILED, Status.PENDING), workflow="greet") == "fda"
    assert _listed(bench, red, status=()) == ""
    assert _listed(bench, red, parent=row.run_key) == "f"
    assert _listed(bench, red, limit=2) == "fd"
    assert _listed(bench, red, after=Filter().place(row)) == "ba"


@case
def what_many_runs_are_tagged_with_is_found_just_the_same(bench: Bench) -> None:
    common = {"env": "prod"}
    many = [bench.new(f"-{number}", meta=note(tags=common)) for number in range(FEW)]
    _tagged(bench, "a", {**common, "customer": "42"})
    bench.store.create_runs(many)
    _tagged(bench, "b", {**common, "customer": "42"})
    row = bench.store.get_run("a")
    assert row is not None
    held = bench.retake(row.run_key)
    held.commit(held.end(Status.FAILED))
    env, customer = ("env", "prod"), ("customer", "42")
    assert _listed(bench, env, customer) == "ba"
    assert _listed(bench, env, status=(Status.FAILED, Status.CANCELLED)) == "a"
    assert _listed(bench, env, status=(Status.FAILED,), workflow="greet") == "a"
    assert _listed(bench, env, status=(Status.FAILED,), workflow="other") == ""
    assert _listed(bench, env, status=(Status.FAILED,), after=Filter().place(row)) == ""
    assert _listed(bench, env, ("customer", "4"), status=(Status.FAILED,)) == ""
    assert len(bench.store.list_runs(Filter(tags=(env,), limit=5000))) == FEW + 2


@case
def a_run_that_was_there_keeps_its_tags(bench: Bench) -> None:
    _tagged(bench, "a", {"customer": "42"})
    _tagged(bench, "a", {"customer": "43"})
    assert _listed(bench, ("customer", "42")) == "a"
    assert _listed(bench, ("customer", "43")) == ""
