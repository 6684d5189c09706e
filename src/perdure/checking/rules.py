"""The rules: what each one finds, why that is wrong in a workflow, and what to write instead."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]


class Rule(NamedTuple):
    """One rule.

    Attributes:
        name: what it is called on the command line and in ``# perdure: ignore[…]``; it never changes.
        severity: an "error" goes wrong on some replay or cancel, a "warning" may.
        why: what is wrong, following what was found.
        instead: what to write.
    """

    name: str
    severity: Severity
    why: str
    instead: str


RULES: Final = {
    rule.name: rule
    for rule in (
        Rule("clock", "error", "shows another time on every replay", "write perdure.now()"),
        Rule("random", "error", "gives something else on every replay", "write perdure.random() or perdure.uuid4()"),
        Rule("io", "error", "reaches outside the run again on every replay", "do it in a step"),
        Rule(
            "environment",
            "warning",
            "may be something else where the run goes on",
            "ask for it in a step, or take it in the input",
        ),
        Rule("identity", "warning", "differs from process to process", "compare values, or use hashlib"),
        Rule(
            "sleep",
            "error",
            "blocks all runs of the process, and again on every replay",
            "write `await perdure.sleep(…)`, or perdure.sync.sleep(…) in a sync workflow",
        ),
        Rule(
            "thread",
            "error",
            "leaves the run's own event loop, so nothing of it can be recorded",
            "do it in a step; for calls side by side there are perdure.parallel and asyncio's own",
        ),
        Rule(
            "set-order",
            "error",
            "is gone through in an order that differs from process to process",
            "write sorted(…)",
        ),
        Rule(
            "as-completed",
            "error",
            "takes bare coroutines in the order of their addresses",
            "wrap each in asyncio.create_task(…), or pass calls of steps",
        ),
        Rule(
            "swallow",
            "error",
            "also keeps the run's cancellation from the workflow",
            "catch Exception or something narrower, or raise it again",
        ),
        Rule(
            "finally-effect",
            "warning",
            "happens when the run leaves memory to wait, too, and not when its process is killed",
            "do it after the try, or in a step",
        ),
        Rule(
            "global-state",
            "error",
            "changes what all runs of the process share, and again on every replay",
            "keep it in a variable of the workflow, or do it in a step",
        ),
        Rule("not-awaited", "error", "is called and never awaited, so it never runs", "write `await` before it"),
        Rule("colour", "error", "is of the other colour than the code that calls it", "write {spelling}"),
        Rule(
            "generator",
            "error",
            "yields, and what a step or a workflow gives is one value",
            "return a list, or make a step of what happens to each item",
        ),
        Rule(
            "polling",
            "warning",
            "waits by sleeping again and again, and every sleep is an event in the log",
            "await a signal or an asyncio.Event, or wait in a step",
        ),
        Rule("unknown-rule", "warning", "names no rule there is", "`perdure check --rules` lists them"),
    )
}
"""Every rule by its name."""

__all__ = ["RULES", "Rule", "Severity"]
