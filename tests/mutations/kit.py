"""The protections of the test kit for users; part of the table."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_FAKES, _ENV = "testing/fakes.py", "testing/environment.py"
_OVERRIDE = "testing/test_override.py::test_"

KIT = [
    Mutation(
        "an override is undone for the next attempt of a call as well", "testing/stage.py",
        "call.step = step if override is None else", "call.step = call.step if override is None else",
        _OVERRIDE + "an_override_is_undone_between_two_attempts",
    ),
    Mutation(
        "the fake of a class method holds for subclasses", _FAKES,
        "and issubclass(step.owner, owner)", "and False",
        _OVERRIDE + "a_method_is_faked_at_its_class_for_all_and_at_an_instance_for_that_one",
    ),
    Mutation(
        "the fake of one instance is not that of others", _FAKES,
        "if owner is None or owner is step.owner:", "if True:",
        _OVERRIDE + "a_method_is_faked_at_its_class_for_all_and_at_an_instance_for_that_one",
    ),
    Mutation(
        "a fake that the step could not call is refused", _FAKES,
        "            _check_signature(fake, self.step, self._signature, self._takes_ctx)\n", "",
        _OVERRIDE + "what_cannot_stand_in_is_refused_at_once[too few]",
    ),
    Mutation(
        "a value that could not be the result is refused", _FAKES,
        "            self.step.result.encode(fake)\n", "",
        _OVERRIDE + "a_value_that_could_not_be_the_steps_result_is_refused_at_once",
    ),
    Mutation(
        "signals of one run are not sent to others", "testing/script.py",
        "if meant is not None and row.run_id not in meant:", "if False:",
        "testing/test_env.py::test_signals_of_one_run_are_not_sent_to_others_that_wait",
    ),
    Mutation(
        "who waits for a run goes on after a crash", _ENV,
        "if self._engine is engine:", "if True:",
        "testing/test_env_crash.py::test_who_waits_for_a_run_goes_on_waiting_in_the_next_process",
    ),
    Mutation(
        "what may come in another order is crashed in other orders", "testing/process.py",
        "        self.order.hold()\n", "        pass\n",
        "testing/test_explore.py::test_an_order_of_events_that_does_harm_is_found_and_named",
    ),
    Mutation(
        "a process that is to be killed is killed, and not left to end", "testing/killing.py",
        'told.say("died", what, self.stuck)\n', "return super()._die(what)\n",
        "testing/test_explore_kill.py::test_what_dies_here_and_what_is_killed_dies_at_the_same_points",
    ),
    Mutation(
        "each attempt has arguments of its own", "runtime/outcomes.py",
        "call.prepared = step.arguments.anew(call.prepared)", "pass",
        "testing/test_explore.py::test_a_step_may_take_its_input_apart",
    ),
    Mutation(
        "what does not decode is not shown", "model/codec.py",
        "if not isinstance(error, ValidationError):\n        return f", "if True:\n        return f",
        "engine/test_secrets.py::test_a_message_that_does_not_fit_is_refused_without_being_shown",
    ),
    Mutation(
        "no log line shows the values of a departure", "telemetry/logs.py",
        "return error.headline", "return error.message",
        "engine/test_secrets.py::test_a_departure_from_the_log_is_warned_of_and_told_without_its_values_being_shown",
    ),
    Mutation(
        "code that departs from a history fails the test", "testing/histories.py",
        "if found.verdict is Verdict.DEPARTS:", "if False:",
        "testing/test_histories.py::test_code_that_departs_fails_with_the_place_and_what_to_do[finished-sqlite]",
    ),
]  # fmt: skip
