"""The protections of progress, streams and hooks; part of the table."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_REPORTS = "runtime/reports.py"
_PROGRESS, _STREAMS = "engine/test_progress.py::test_", "engine/test_streams.py::test_"
_HOOKS = "engine/test_hooks.py::test_"

WATCHING = [
    Mutation(
        "what a body says before it ends is no progress of the run", "store/sqlite/queries/events.sql",
        "kind NOT IN (2, 3, 13, 23, 25)", "kind NOT IN (2, 3, 23)",
        "store/test_suite.py::test_store[sqlite-what_a_step_reports_and_emits_before_it_ends_is_no_progress]",
    ),
    Mutation(
        "progress is bounded in its rate", _REPORTS,
        "if self._progress is not None and now >= self._rests:", "if self._progress is not None:",
        _PROGRESS + "of_many_calls_a_second_few_are_kept_and_the_last_is_there_before_the_outcome"
        "[sqlite-counting_slowly-30]",
    ),
    Mutation(
        "what an attempt said is in the log before its outcome", "runtime/bodies.py",
        "            self.report.close()\n", "            pass\n",
        _PROGRESS + "one_loop_without_a_pause_leaves_its_first_and_its_last_call[sqlite]",
    ),
    Mutation(
        "the next attempt finds what the last one said, also after a crash", "model/replay.py",
        'self.progress[key] = event.payload or b""', "pass",
        _PROGRESS + "it_is_there_for_the_next_process_when_this_one_is_killed[sqlite]",
    ),
    Mutation(
        "progress that cannot be read fails no step", _REPORTS,
        "    except Undecodable as error:", "    except MemoryError as error:",
        _PROGRESS + "what_code_of_today_cannot_read_counts_as_nothing_and_is_warned_of[sqlite]",
    ),
    Mutation(
        "code that is replayed emits nothing again", "runtime/code_view.py",
        "if key not in run.replay.emitted:", "if True:",
        _STREAMS + "code_that_is_replayed_emits_nothing_again[sqlite-naps]",
    ),
    Mutation(
        "values share commits", _REPORTS,
        "        if self._timer is None:\n            self._tick()", "        self._tick()",
        _STREAMS + "many_values_come_in_order_once_each_and_share_commits[sqlite-writing]",
    ),
    Mutation(
        "a thread emits no faster than can be written", _REPORTS,
        "while len(self._values) >= MOST and not", "while False and not",
        _STREAMS + "a_thread_that_emits_faster_than_it_can_be_written_waits[sqlite]",
    ),
    Mutation(
        "an attempt that has ended emits nothing", _REPORTS,
        "            if self._closed:\n                raise", "            if False:\n                raise",
        _STREAMS + "nothing_is_emitted_once_the_attempt_has_ended[sqlite]",
    ),
    Mutation(
        "a follower goes on where it was", "handle.py",
        "                after = page[-1].seq\n                yield page",
        "                after = page[0].seq\n                yield page",
        _STREAMS + "whoever_follows_elsewhere_sees_values_while_the_run_goes_on[sqlite]",
    ),
    Mutation(
        "hooks are told only what was written", "dispatch.py",
        "if verdict <= Verdict.ALREADY:", "if True:",
        _HOOKS + "an_end_that_was_not_written_because_a_cancel_came_first_is_not_told[sqlite]",
    ),
    Mutation(
        "a slow hook fills no memory", "dispatch.py",
        "if len(self._queue) >= MOST:", "if False:",
        _HOOKS + "a_slow_one_holds_nobody_up_and_what_does_not_fit_its_queue_is_dropped_and_counted[sqlite]",
    ),
    Mutation(
        "a hook that fails is contained", "dispatch.py",
        "        except (Exception, SystemExit) as error:", "        except MemoryError as error:",
        _HOOKS + "one_that_fails_is_logged_and_touches_neither_the_run_nor_the_others"
        "[sqlite-True-ValueError('oops')]",
    ),
    Mutation(
        "a stuck hook does not keep the engine from stopping", "dispatch.py",
        "await asyncio.wait([task], timeout=patience)", "await asyncio.wait([task], timeout=60)",
        _HOOKS + "stop_waits_for_them_no_longer_than_its_grace[sqlite-True]",
    ),
]  # fmt: skip
