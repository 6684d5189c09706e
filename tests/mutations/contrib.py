"""Protections of what runs inside of other frameworks."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_AGENTS = "contrib/test_pydantic_ai.py::"
_WEB = "contrib/test_starlette.py::"

CONTRIB = [
    Mutation(
        "what differs on a replay is no part of what an agent asks",
        "contrib/pydantic_ai.py",
        'frozenset({"timestamp", "run_id", "conversation_id"})',
        "frozenset()",
        _AGENTS + "test_it_survives_a_crash_at_every_point[sqlite]",
        slow=True,
    ),
    Mutation(
        "keys of an agent's steps do not depend on its tasks",
        "contrib/pydantic_ai.py",
        "own, task.scope = task.scope, place",
        "own = task.scope",
        _AGENTS + "test_each_request_and_each_call_of_a_tool_is_a_step[sqlite]",
    ),
    Mutation(
        "another prompt is drift",
        "contrib/pydantic_ai.py",
        'return [_stable(part) for part in parts if part["part_kind"] != "system-prompt"]',
        "return None",
        _AGENTS + "test_another_prompt_is_drift_and_asks_nothing[sqlite]",
    ),
    Mutation(
        "a problem response does not show what is recorded",
        "contrib/starlette.py",
        '"detail": error.headline',
        '"detail": error.message',
        _WEB + "test_errors_of_perdures_are_problem_responses_that_show_nothing_that_is_recorded[sqlite]",
    ),
    Mutation(
        "a process that was forked is told that the engine is its parent's",
        "portal.py",
        "if self._pid != os.getpid():",
        "if False:",
        "contrib/test_forking.py::test_a_forked_child_is_told_that_the_engine_is_its_parents[sqlite]",
        slow=True,
    ),
]
