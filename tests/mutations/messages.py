"""The protections of signals, children and what they send each other; part of the table."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_RUN, _WAITS, _CHILDREN = "runtime/run.py", "runtime/waits.py", "runtime/children.py"
_SIGNALS, _BORN, _INSIDE = (
    f"engine/{file}.py::test_" for file in ("test_signals", "test_children", "test_calls_inside")
)

MESSAGES = [
    Mutation(
        "a message that is there wins over the timeout",
        _RUN,
        "        self.item.inbox_seen = self.inbox\n        self.host.journal.barrier(self)\n        done",
        "        self.host.journal.barrier(self)\n        done",
        _SIGNALS + "a_message_that_is_there_when_the_timeout_is_written_wins_over_it[sqlite-patient]",
    ),
    Mutation(
        "a timeout around a wait loses against a message too",
        _WAITS,
        "run.confirm(timer.key, (run.loop.fire, timer)) if self.signals else run.fire(timer)",
        "run.fire(timer)",
        _SIGNALS + "a_message_that_is_there_when_the_timeout_is_written_wins_over_it[sqlite-under_a_timeout]",
    ),
    Mutation(
        "messages come in the order in which they were sent",
        _WAITS,
        "self._mail[what.name].popleft()",
        "self._mail[what.name].pop()",
        _SIGNALS + "messages_sent_before_anyone_waits_are_kept_and_come_in_their_order[sqlite]",
    ),
    Mutation(
        "a message leaves the inbox with the event that says so",
        _WAITS,
        "            ),\n            take=[row.inbox_key],\n",
        "            ),\n",
        _SIGNALS + "a_second_message_with_the_same_idempotency_key_is_not_sent_again[sqlite]",
    ),
    Mutation(
        "a message is of the signal's type",
        "signals.py",
        'codec.admit(value, f"signal {name!r}")',
        "value",
        _SIGNALS + "the_message_is_checked_before_it_is_sent[sqlite]",
    ),
    Mutation(
        "a child that is recorded is not started again",
        _CHILDREN,
        "recorded = run.replay.children.pop(key, None)",
        "recorded = None",
        _BORN + "what_a_replay_passes_by_is_not_sent_or_started_again[sqlite]",
    ),
    Mutation(
        "a wait that nobody awaits is no message",
        "runtime/calls.py",
        "        raise self.not_awaited()\n",
        "        return True\n",
        "runtime/test_letting_go.py::test_a_wait_that_is_never_awaited_is_never_taken_for_its_message[approves_by_itself]",
    ),
    Mutation(
        "a wait that nobody awaits fails the run",
        _WAITS,
        "        run.untaken[key] = self\n",
        "",
        "runtime/test_letting_go.py::test_a_wait_that_is_never_awaited_is_never_taken_for_its_message[forgets_a_wait]",
    ),
    Mutation(
        "a message that is recorded is not sent again",
        "runtime/code_view.py",
        "if key not in run.replay.sent:",
        "if True:",
        _BORN + "what_a_replay_passes_by_is_not_sent_or_started_again[sqlite]",
    ),
    Mutation(
        "a call of a child that nobody awaits is told",
        _CHILDREN,
        "        self.code, self.lasti = frame.f_code, frame.f_lasti\n",
        "        self.code, self.lasti = frame.f_code, frame.f_lasti\n        self.launch()\n",
        _BORN + "what_is_wrong_with_a_child_is_refused_before_it_is_written[sqlite-forgetful-NotAwaited]",
    ),
    Mutation(
        "a child knows how many are above it",
        _CHILDREN,
        "depth=run.code.depth + 1",
        "depth=run.code.depth",
        _BORN + "a_workflow_that_starts_itself_without_end_is_stopped[sqlite]",
    ),
    Mutation(
        "so does what a run goes on as",
        "runtime/succession.py",
        "depth=run.code.depth",
        "depth=0",
        _BORN + "a_child_counts_those_above_it_also_when_it_goes_on_as_a_new_run[sqlite]",
    ),
    Mutation(
        "an abandoned child outlives the cancel of its parent",
        _CHILDREN,
        "if not self.workflow.options.abandon and self.key",
        "if self.key",
        _BORN + "children_that_are_abandoned_outlive_a_cancel_and_others_do_not[sqlite]",
    ),
    Mutation(
        "what a step starts is found by its next attempt",
        "client.py",
        "idempotency_key = step_context().next_key()",
        "pass",
        _INSIDE + "what_a_step_enqueues_is_found_again_by_its_next_attempt[sqlite]",
    ),
    Mutation(
        "an input is of the type that is announced",
        "workflow.py",
        'self.input.admit(value, "input")',
        "value",
        "engine/test_enqueue.py::test_an_input_is_validated_and_what_that_makes_of_it_is_stored[sqlite]",
    ),
]
