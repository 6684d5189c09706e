"""The protections of schedules; part of the table."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_SUITE = "store/test_suite.py::test_store[sqlite-"
_SCHEDULING = "store/scheduling.py"
_SCHEDULES = "engine/test_schedules.py::test_"
_FIRING, _CADENCE = "model/test_firing.py::test_", "model/test_cadence.py::test_"
_CADENCE_FILE, _ZONES = "model/cadence.py", "model/test_cadence_zones.py::test_"

SCHEDULES = [
    Mutation(
        "a change of a schedule is conditional on what was seen", _SCHEDULING,
        "return Verdict.APPLIED if changes == row.change - 1 else Verdict.STALE", "return Verdict.APPLIED",
        _SUITE + "a_change_is_conditional_on_what_was_seen]",
    ),
    Mutation(
        "a change of a schedule that is sent again is recognised", _SCHEDULING,
        "return Verdict.ALREADY if token == row.token else Verdict.STALE", "return Verdict.STALE",
        _SUITE + "a_change_that_is_sent_again_was_made_already]",
    ),
    Mutation(
        "the id of another run costs an occurrence, and is not counted as its run", _SCHEDULING,
        "if record.run_id is not None and record.run_id not in new", "if False",
        _SUITE + "an_occurrence_whose_id_is_taken_is_skipped]",
    ),
    Mutation(
        "one schedule that cannot be written stops no other", "store/sqlite/schedules.py",
        "            with cursor.connection:  # a savepoint\n                verdicts",
        "            if True:\n                verdicts",
        _SUITE + "of_a_change_that_cannot_be_written_nothing_is]",
    ),
    Mutation(
        "one schedule that cannot be understood stops no other", "runtime/scheduler.py",
        "            except _BAD as error:", "            except MemoryError as error:",
        _SCHEDULES + "one_bad_schedule_stops_no_other_and_says_what_is_wrong[sqlite]",
    ),
    Mutation(
        "a schedule that comes back keeps its watermark", "model/defining.py",
        "watermark=max(old.watermark, now),\n        )", "watermark=now,\n        )",
        _FIRING + "a_schedule_that_comes_back_decides_nothing_twice",
    ),
    Mutation(
        "a clock that goes back does not lower the watermark", "model/defining.py",
        "made._replace(cadence=new.cadence, watermark=max(made.watermark, now))",
        "made._replace(cadence=new.cadence, watermark=now)",
        _FIRING + "another_cadence_does_not_lower_the_watermark",
    ),
    Mutation(
        "an older build does not replace what a newer one defined", "model/defining.py",
        "if not is_same and _is_older(new, old):", "if False:",
        _SCHEDULES + "an_older_build_that_speaks_again_does_not_replace_a_newer_one[sqlite]",
    ),
    Mutation(
        "what was missed by more than the window is not started", "model/firing.py",
        "        if at < now - policy.catch_up:", "        if False:",
        _FIRING + "what_jitter_has_put_off_is_late_from_when_it_was_due",
    ),
    Mutation(
        "long rows of missed occurrences are not walked through", "model/firing.py",
        "    if last is not None and last > made.watermark:", "    if False:",
        _FIRING + "a_century_of_missed_seconds_is_not_walked_through[allow-interval]",
    ),
    Mutation(
        "an occurrence waits for the run before it", "model/firing.py",
        'while made.waiting and (not busy or policy.overlap == "allow")', "while made.waiting",
        _FIRING + "queue_starts_one_after_the_other_and_no_more_than_so_many_wait",
    ),
    Mutation(
        "a wall time that is left out occurs after the gap", "model/zones.py",
        "        return at if changed is None else changed", "        return at",
        _CADENCE + "a_time_of_day_that_is_left_out_comes_at_the_end_of_the_gap",
    ),
    Mutation(
        "of several in a row that must wait only the last is started", "model/firing.py",
        "made.watermark, made.waiting = last, [last]", "made.watermark, made.waiting = last, [*made.waiting, last]",
        _FIRING + "cancel_has_what_runs_give_way_and_starts_the_last",
    ),
    Mutation(
        "a time that comes twice counts once", "model/cadence.py",
        "if wall is not None and (found := where.instant(wall)) > after:",
        "if wall is not None and (found := where.instant(wall)) > 0:",
        _CADENCE + "a_time_of_day_that_comes_twice_counts_once",
    ),
    Mutation(
        "a run knows the occurrence that it is", "runtime/run.py",
        "        self.code.born(created)\n", "",
        _SCHEDULES + "an_interval_fires_once_each_time_and_the_run_knows_its_occurrence[sqlite]",
    ),
    Mutation(
        "a time of day that is left out occurs when the gap ends", "model/zones.py",
        "return at if changed is None else changed", "return at",
        _ZONES + "a_zone_knows_when_its_walls_show_a_time_and_when_they_are_changed",
    ),
    Mutation(
        "a step does not lead out of its range", _CADENCE_FILE,
        "return found[1] if first == last else found[0]", "return found[0]",
        _CADENCE + "a_step_does_not_lead_out_of_its_range[5-5/10 * * * *-5 * * * *]",
    ),
]  # fmt: skip
