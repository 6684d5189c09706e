"""The protections from power cuts, and what their tests have brought to light; part of the table."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_FILES = "store/sqlite/files.py"
_POWER = "power/test_power.py::test_"

POWER = [
    Mutation(
        "what was acknowledged is there after a power cut", "store/sqlite/connect.py",
        "    if found != wanted:\n",
        '    connection.execute(QUERIES["synchronous_process"]).fetchall()\n    if found != wanted:\n',
        _POWER + "what_is_acknowledged_first_is_there",
    ),
    Mutation(
        "the directories of a store are on disk before it is", _FILES,
        "exist_ok=True)\n    sync_directory(path.parent)\n", "exist_ok=True)\n",
        _POWER + "what_is_acknowledged_first_is_there",
    ),
    Mutation(
        "a store that was half made is made anew", _FILES,
        "if not header or is_half_made(path):", "if not header:",
        _POWER + "a_store_whose_making_was_cut_off_is_made_anew",
    ),
    Mutation(
        "whoever looks at a half-made store finds none", "store/sqlite/inspect.py",
        " and not is_half_made(path)", "",
        _POWER + "a_store_whose_making_was_cut_off_is_made_anew",
    ),
    Mutation(
        "a run that was claimed anew before its suspension was told is let go", "runtime/worker.py",
        "        if self.running.get(run.run_key) is not run:\n            run.drop(None)",
        "        if False:\n            run.drop(None)",
        "runtime/test_letting_go.py::test_a_run_that_was_claimed_anew_before_its_suspension_was_told_is_let_go",
    ),
]  # fmt: skip
