"""Protections of what runs inside of other frameworks."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_AGENTS = "contrib/test_pydantic_ai.py::"
_OPENAI = "contrib/test_openai_agents.py::"
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
        "contrib/agents.py",
        "own, task.scope = task.scope, at",
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
        "agents that run inside of agents have a place of their own",
        "contrib/openai_agents.py",
        "at.child(named(agent.name))",
        "at",
        _OPENAI + "test_each_request_and_each_call_of_a_tool_is_a_step[sqlite]",
        slow=True,
    ),
    Mutation(
        "what an agent that is a tool, or a guardrail, asks is a step",
        "contrib/openai_agents.py",
        "return await _durable().run(starting_agent, input, **options)",
        "return await self.other.run(starting_agent, input, **options)",
        _OPENAI + "test_each_request_and_each_call_of_a_tool_is_a_step[sqlite]",
        slow=True,
    ),
    Mutation(
        "an agent that is handed to is durable as well",
        "contrib/openai_agents.py",
        "return self._durable(await invoke(context, arguments), running)",
        "return await invoke(context, arguments)",
        _OPENAI + "test_a_request_that_fails_is_tried_again_by_its_step_and_a_runs_model_is_all_agents[sqlite]",
        slow=True,
    ),
    Mutation(
        "what a provider has not set is not sent back to it",
        "contrib/openai_agents.py",
        'mode="json", by_alias=True, exclude_unset=True)',
        'mode="json", by_alias=True)',
        _OPENAI + "test_the_model_is_asked_the_same_as_without_it_and_nothing_is_traced[sqlite]",
        slow=True,
    ),
    Mutation(
        "a refusal is not told to a model instead",
        "contrib/openai_agents.py",
        "loop.poisoned(error)",
        "pass",
        _OPENAI + "test_what_could_not_be_recorded_is_refused_even_where_an_agent_would_swallow_it[sqlite]",
        slow=True,
    ),
    Mutation(
        "values in a notebook stay text",
        "contrib/jupyter.py",
        "{escape(words.compact(run[name]))}",
        "{words.compact(run[name])}",
        "contrib/test_jupyter.py::test_a_run_is_shown_with_why_and_a_bar_for_each_attempt_and_its_values_stay_text[sqlite]",
        slow=True,
    ),
    Mutation(
        "what is redacted is not shown in a notebook",
        "contrib/jupyter.py",
        "with redacting(hidden):",
        "with redacting(Redaction(())):",
        "contrib/test_jupyter.py::test_what_is_redacted_is_not_shown[sqlite]",
        slow=True,
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
