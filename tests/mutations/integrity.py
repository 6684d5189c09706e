"""The protections of what is stored; part of the table."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_BYTES, _ROWS = "integrity/test_every_byte.py::test_", "integrity/test_rows.py::test_"

INTEGRITY = [
    Mutation(
        "the chain is looked at before a run goes on", "runtime/run.py",
        "chain.check(self.uid, self.events, run_id=self.run_id)", "pass",
        _BYTES + "no_damaged_run_goes_on_and_every_whole_one_does[sqlite]",
    ),
    Mutation(
        "the chain is looked at before a result is returned", "operations/verbs.py",
        "chain.check(row.uid, events, run_id=row.run_id)", "pass",
        _BYTES + "a_changed_value_in_any_column_of_any_event_is_found[sqlite]",
    ),
    Mutation(
        "no number passes for none", "model/chain.py",
        " and event.attempt != -1 and event.took != -1", "",
        _BYTES + "a_changed_value_in_any_column_of_any_event_is_found[sqlite]",
    ),
    Mutation(
        "an artifact is what its hash says", "verifying.py",
        "elif sha256(data).digest() != digest:", "elif False:",
        _BYTES + "a_changed_or_lost_artifact_is_found[sqlite]",
    ),
    Mutation(
        "what a row and its log both say is compared", "verifying.py",
        "if said != logged:", "if False:",
        _ROWS + "a_changed_row_is_found_or_leads_to_nothing_wrong[sqlite]",
    ),
    Mutation(
        "a run whose row has another epoch than its log is not claimed", "store/tails.py",
        "(complete and epoch != log[-1].epoch)", "False",
        _ROWS + "a_changed_row_is_found_or_leads_to_nothing_wrong[sqlite]",
    ),
    Mutation(
        "a run is not executed as one of another workflow", "runtime/run.py",
        "payloads.check_origin(self.events[0], self.definition.origin, self.run_id)", "pass",
        _ROWS + "a_run_is_not_executed_as_one_of_another_workflow[sqlite]",
    ),
    Mutation(
        "sets are written alike in every process", "model/codec.py",
        "write = partial(write_ordered, write)", "pass",
        "model/test_arguments.py::test_a_long_set_is_the_same_argument_in_every_process",
    ),
    Mutation(
        "a lack of memory is no drift", "model/codec.py",
        "except MemoryError:  # says nothing of what is stored", "except KeyError:",
        "engine/test_short_of_memory.py::test_a_recorded_value_that_could_not_be_read_is_no_drift[sqlite-MemoryError]",
    ),
    Mutation(
        "what panics in an extension ends one execution", "runtime/run.py",
        "except BaseException as error:  # noqa: BLE001 - told to the owner;", "except Exception as error:  #",
        "engine/test_short_of_memory.py::test_a_recorded_value_that_could_not_be_read_is_no_drift[sqlite-Panic]",
    ),
    Mutation(
        "a lack of memory is no fault of a value", "model/codec.py",
        "except MemoryError:  # says nothing of the value: what is tried next would only hide it", "except KeyError:",
        "engine/test_short_of_memory.py::test_a_result_that_could_not_be_written_is_no_failure_of_the_step[sqlite-MemoryError]",
    ),
]  # fmt: skip
