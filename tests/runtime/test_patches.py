"""patched(): a run that was there before keeps the old code, all others take the new; for ever, whatever dies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure import Signal, parallel, patched, step, step_context, workflow
from perdure.errors import DefinitionError, NotInRun
from perdure.finding import Code
from perdure.model.records import Kind
from perdure.replaying import Verdict, replay_here
from perdure.testing import explore_crashes
from tests.runtime.harness import CUTS, SEED, attack, fail, lab, work

CODE = {}
"""The code that ``changing`` has today."""


@workflow
async def changing() -> Any:
    return await CODE["today"]()


@workflow
def changing_sync() -> Any:
    return CODE["today"]()


async def old():
    return [await work("a"), await work("b")]


async def new():
    if patched("reviewed"):
        return [await work("a"), await work("review"), await work("b")]
    return [await work("a"), await work("b")]


async def new_between():
    first = await work("a")
    second = await work("review") if patched("reviewed") else "old"
    return [first, second, await work("b")]


def marks(history):
    return [(event.kind, event.key) for event in history.events if event.kind == Kind.PATCH_MARKED]


MARK = [(Kind.PATCH_MARKED, "@patch[reviewed]")]


def in_lab(path, main, *workflows):
    async def open_lab():
        path.mkdir(exist_ok=True)
        async with lab(path, [changing, changing_sync, *workflows]) as here:
            return await main(here)

    return asyncio.run(open_lab())


async def live(here, code):
    CODE["today"] = code
    first = await here.live(changing)
    assert first.outcome[0] == "returned", first.outcome
    return first


async def resume(here, first, count, code):
    CODE["today"] = code
    return await here.resume(changing, first.history, count)


def test_a_new_run_takes_the_new_code_and_says_so_once(tmp_path):
    async def main(here):
        first = await live(here, new)
        assert first.outcome == ("returned", ["a", "review", "b"])
        assert marks(first.history) == MARK
        assert first.history.kinds().index("patch_marked") < first.history.kinds().index("step_completed")
        view = await here.engine.get("live-1").view()
        assert (view.patches, list(view.steps)) == (["reviewed"], ["work#1", "work#2", "work#3"])

    in_lab(tmp_path, main)


def test_a_run_that_was_there_before_keeps_the_old_code_wherever_it_is_cut(tmp_path):
    async def main(here):
        first = await live(here, old)
        for count in range(2, len(first.history.events)):
            again = await resume(here, first, count, new)
            assert again.outcome == ("returned", ["a", "b"])
            assert marks(again.history) == []

    in_lab(tmp_path, main)


def test_a_run_that_had_not_come_so_far_takes_the_new_code(tmp_path):
    """It was claimed before, and came as far as the first step: what follows its outcome is new if that is."""

    async def main(here):
        first = await live(here, old)
        before = first.history.kinds().index("step_completed")
        again = await resume(here, first, before, new_between)
        assert again.outcome == ("returned", ["a", "review", "b"])
        assert marks(again.history) == MARK
        there = await resume(here, first, before + 1, new_between)
        assert there.outcome == ("returned", ["a", "old", "b"])
        assert marks(there.history) == []

    in_lab(tmp_path, main)


@pytest.mark.parametrize("code", [new, new_between])
def test_the_answer_stays_wherever_the_run_is_cut(tmp_path, code):
    async def main(here):
        first = await live(here, code)
        at = first.history.kinds().index("patch_marked")
        for count in range(at + 1, len(first.history.events)):
            again = await resume(here, first, count, code)
            assert again.outcome == first.outcome
            assert marks(again.history) == MARK
        # Cut before the mark it is a run that may have been there; either answer will do, if it is kept.
        for count in range(2, at + 1):
            again = await resume(here, first, count, code)
            assert len(marks(again.history)) == ("review" in again.outcome[1])
            once_more = await here.replay(changing, again.history)
            assert once_more.outcome == again.outcome

    in_lab(tmp_path, main)


def test_a_run_that_kept_the_old_code_keeps_it_after_new_outcomes_too(tmp_path):
    async def code():
        first = await work("a")
        early = patched("reviewed")
        await work("b")
        return [first, early, patched("reviewed")]

    async def main(here):
        first = await live(here, old)
        at = first.history.kinds().index("step_completed")
        again = await resume(here, first, at + 1, code)
        assert again.outcome == ("returned", ["a", False, False])
        once_more = await here.replay(changing, again.history)
        assert once_more.outcome == again.outcome

    in_lab(tmp_path, main)


def test_a_mark_that_nobody_asks_about_any_more_is_no_drift(tmp_path):
    async def deprecated():
        return [await work("a"), await work("review"), await work("b")]

    async def main(here):
        first = await live(here, new)
        CODE["today"] = deprecated
        assert (await here.replay(changing, first.history)).outcome == first.outcome
        log = first.history
        row = await here.engine.get("live-1").row()
        seen = await replay_here(Code(changing, __file__), row, log.events, here.engine._store)
        assert seen.verdict is Verdict.SAME, seen.reason

    in_lab(tmp_path, main)


@pytest.mark.parametrize(("before", "after"), [(new, new), (old, new), (new_between, new_between)])
def test_a_replay_of_a_whole_log_answers_as_the_run_did(tmp_path, before, after):
    async def main(here):
        first = await live(here, before)
        CODE["today"] = after
        row = await here.engine.get("live-1").row()
        seen = await replay_here(Code(changing, __file__), row, first.history.events, here.engine._store)
        assert (seen.verdict, seen.unasked) == (Verdict.SAME, []), seen.reason

    in_lab(tmp_path, main)


def test_branches_decide_each_for_the_place_they_are_at(tmp_path):
    async def one(tag, name):
        await work(tag)
        return [tag, patched(name), patched(name), await work(tag)]

    async def code():
        return await parallel(one("a", "first"), one("b", "second"), one("c", "first"))

    async def main(here):
        CODE["today"] = code
        await attack(here, changing, cuts=CUTS, seed=SEED)

    in_lab(tmp_path, main)


def test_what_follows_a_timer_or_a_message_that_is_new_is_new(tmp_path):
    news = Signal[str]("news")

    async def code():
        await work("a")
        before = patched("before")
        first = await news.wait(timeout=1, default="late")
        return [before, first, patched("after")]

    async def waits():
        await work("a")
        return await news.wait(timeout=1, default="late")

    async def main(here):
        first = await live(here, waits)
        at = first.history.kinds().index("step_completed")
        again = await resume(here, first, at + 1, code)
        assert again.outcome == ("returned", [False, "late", True])

    in_lab(tmp_path, main)


def test_a_sync_workflow_asks_by_the_same_call(tmp_path):
    def code():
        first = work.sync("a")
        return [first, work.sync("review") if patched("reviewed") else "old", work.sync("b")]

    def before():
        return [work.sync("a"), "old", work.sync("b")]

    async def main(here):
        CODE["today"] = code
        first = await here.live(changing_sync)
        assert (first.outcome, marks(first.history)) == (("returned", ["a", "review", "b"]), MARK)
        again = await here.replay(changing_sync, first.history)
        assert again.outcome == first.outcome
        CODE["today"] = before
        of_old = await here.live(changing_sync)
        CODE["today"] = code
        at = of_old.history.kinds().index("step_completed")
        resumed = await here.resume(changing_sync, of_old.history, at + 1)
        assert resumed.outcome == ("returned", ["a", "old", "b"])

    in_lab(tmp_path, main)


def test_a_failed_run_that_is_resumed_keeps_its_answers(tmp_path):
    async def broken():
        await work("a")
        return [patched("reviewed"), await fail("b")]

    async def mended():
        await work("a")
        return [patched("reviewed"), patched("later"), await work("b")]

    async def main(here):
        CODE["today"] = broken
        first = await here.live(changing, run_id="r")
        assert first.outcome[0] == "raised"
        CODE["today"] = mended
        await here.engine.get("r").resume()
        again = await here.seen(changing, "r")
        assert again.outcome == ("returned", [True, False, "b"])

    in_lab(tmp_path, main)


# -- durable before anything later begins


@step
async def look() -> list[str]:
    """The marks that are on disk while this runs."""
    ctx = step_context()
    engine = ctx.tools.engine
    events = await engine._journal.call(lambda: engine._store.read_events(row_key(engine, ctx.run_id)))
    return [event.key for event in events if event.kind == Kind.PATCH_MARKED]


def row_key(engine, run_id):
    row = engine._store.get_run(run_id)
    assert row is not None
    return row.run_key


def test_the_mark_is_on_disk_before_a_later_body_begins(tmp_path):
    async def code():
        await work("a")
        assert patched("reviewed")
        return await look()

    async def main(here):
        first = await live(here, code)
        assert first.outcome == ("returned", ["@patch[reviewed]"])

    in_lab(tmp_path, main)


@step
async def effect(what: str) -> str:
    step_context().tools.append(what)
    return what


@workflow
async def reviewed(n: int) -> list[str]:
    done = [await effect("a")]
    if patched("reviewed"):
        done.append(await effect("review"))
    return [*done, await effect("b")]


@workflow
async def asks_first(n: int) -> list[str]:
    return [await effect("new") if helps("first") else await effect("old")]


def helps(name):
    return patched(name)


@workflow
def asks_first_sync(n: int) -> list[str]:
    return [effect.sync("new") if patched("first") else effect.sync("old")]


@pytest.mark.parametrize("definition", [reviewed, asks_first, asks_first_sync])
def test_a_crash_anywhere_leaves_a_new_run_with_the_new_code(definition):
    report = explore_crashes(definition, 1, tools=list)
    assert any("patch_marked" in row.point for row in report.rows), report
    assert "old" not in report.result


# -- where it can be asked


def test_outside_of_runs_it_is_the_new_code_that_is_tested():
    assert patched("reviewed") is True
    assert asyncio.run(changing_now()) == ["new"]


async def changing_now():
    return ["new"] if patched("reviewed") else ["old"]


def test_a_step_cannot_ask(tmp_path):
    @step
    async def asks() -> bool:
        return patched("reviewed")

    @workflow
    async def asking() -> bool:
        return await asks()

    with pytest.raises(NotInRun, match="in a step"):
        perdure.run(asking, store=tmp_path / "runs.db")


@pytest.mark.parametrize("name", ["", "a/b", "a#1", "[x]", "@x", "x" * 201, 3, None])
def test_a_name_that_keys_cannot_hold_is_refused(name):
    with pytest.raises(DefinitionError):
        patched(name)
