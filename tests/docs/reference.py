"""The generated part of docs/reference/api.md. To write it anew: ``python -m tests.docs.reference``.

Signatures and texts are those of the code, so the page cannot say anything else; only the grouping is made here, and
the text of what has no docstring of its own.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import perdure
from tests.docs.pages import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = DOCS / "reference" / "api.md"
BEGIN, END = "<!-- generated: begin -->\n", "<!-- generated: end -->\n"
WIDTH = 100

GROUPS = {
    "Define": "step workflow Retry RetryAfter volatile secret",
    "Run": "run arun Engine Handle Runs Tally Retention Pruned Status",
    "In a workflow": "parallel map sleep sleep_until Signal Child continue_as_new patched now random uuid4 "
    "is_replaying run_context RunContext",
    "Undo": "saga Undo Failure",
    "Limit": "Queue Rate QueueView",
    "Recur": "ScheduleHandle ScheduleView OccurrenceView",
    "In a step": "step_context StepContext INJECTED",
    "Watch": "Event Kind Stream Emitted emit Hooks Notice WorkerNotice Counts Traffic Bucket Latency",
    "Find out what is wrong": "Explanation Cause Finding",
    "Modules and errors": "sync errors PerdureError",
}

TOLD = {
    "INJECTED": "Default of the keyword that takes a context: `*, ctx: StepContext[Tools] = INJECTED` in a step, "
    "`*, ctx: RunContext = INJECTED` in a workflow. Whoever executes the function fills it in; it is neither recorded "
    "nor part of the arguments.",
    "Status": "Where a run is in its life: "
    + ", ".join(f"`{status.word}`" for status in perdure.Status)
    + ". `status.word` is the name, `status.terminal` whether the run has ended (a failed or cancelled one can still "
    "be resumed).",
    "Kind": "What an event says, as `event.kind`: "
    + ", ".join(f"`{kind.name}`" for kind in perdure.Kind)
    + ". `kind.word` is the name in lower case. [Events](events.md) has what comes with each.",
    "errors": "Every error class. They are listed, with what to do about each, in [errors](errors.md).",
    "sync": "What a sync workflow writes instead of `await`, and the blocking `Engine`; see "
    "[write sync code](../how-to/sync-code.md). It has `run`, `sleep`, `parallel`, `receive`, `saga`, `submit`, "
    "`wait`, `Engine` and `Handle`.",
    "volatile": "Marks parameters of steps that may differ on replay: `trace: Annotated[str, volatile]`. They are "
    "recorded, and never compared.",
    "secret": "Marks what is not to be shown to people: `token: Annotated[str, secret]`, on parameters, results, "
    "signals, streams and fields, at any depth. It is stored with the mark, and left out by the dashboard and the "
    "command line; see [mark secrets in types](../how-to/dashboard.md#mark-secrets-in-types).",
}
_MADE_HERE = (
    "Child", "Undo", "Failure", "Handle", "StepContext", "RunContext", "Emitted", "Event", "Notice", "WorkerNotice",
    "Hooks", "ScheduleHandle", "ScheduleView", "OccurrenceView", "QueueView", "Runs", "Tally", "Pruned",
    "Counts", "Traffic", "Bucket", "Latency", "Explanation", "Cause", "Finding",
)  # fmt: skip
INTERNAL = {name: {"__init__"} for name in _MADE_HERE}
"""Made by Perdure, not by users; or there is nothing to give."""
HELD = {"Engine": "engine", "Handle": "handle", "StepContext": "ctx", "Runs": "runs"}
"""What an instance is called in examples."""


def signature(name: str, function: Any, *, method: bool = False) -> str:
    """A signature as it would be written, over several lines if one is too short."""
    parameters = list(inspect.signature(function).parameters.values())[1 if method else 0 :]
    parts = list(_parameters(parameters))
    returns = inspect.signature(function).return_annotation
    arrow = "" if returns is inspect.Signature.empty or name[:1].isupper() else f" -> {returns}"
    head = ("async " if inspect.iscoroutinefunction(function) else "") + name
    line = f"{head}({', '.join(parts)}){arrow}"
    if len(line) <= WIDTH:
        return line
    lines = [""]
    for part in parts:
        if len(lines[-1]) + len(part) + 6 > WIDTH:
            lines.append("")
        lines[-1] += f" {part},"
    return "\n".join([f"{head}(", *(f"   {line}" for line in lines), f"){arrow}"])


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    star = False
    for at, one in enumerate(parameters):
        if one.kind is one.KEYWORD_ONLY and not star:
            star = True
            yield "*"
        star = star or one.kind is one.VAR_POSITIONAL
        text = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "") + one.name
        if one.annotation is not inspect.Parameter.empty:
            text += f": {one.annotation}"
        if one.default is not inspect.Parameter.empty:
            default = re.sub(r"<class '(\w+)'>", r"\1", repr(one.default)).replace("'", '"')
            text += f" = {default}" if one.annotation is not inspect.Parameter.empty else f"={default}"
        yield text
        following = parameters[at + 1 : at + 2]
        if one.kind is one.POSITIONAL_ONLY and not (following and following[0].kind is one.POSITIONAL_ONLY):
            yield "/"


SECTION = re.compile(r"^(Args|Returns|Raises|Attributes):$", re.MULTILINE)


def text_of(thing: Any, *, own: bool = False) -> str:
    """A docstring as Markdown."""
    doc = inspect.cleandoc((vars(thing).get("__doc__") if own else thing.__doc__) or "")
    doc = doc.replace("``", "`")
    parts = SECTION.split(doc)
    out = [parts[0].strip()]
    for title, indented in zip(parts[1::2], parts[2::2], strict=True):
        body = inspect.cleandoc("\n" + indented)
        if title == "Returns":
            out.append(f"Returns: {' '.join(body.split())}")
            continue
        items: list[str] = []
        for line in body.splitlines():
            if line.startswith(" "):
                items[-1] += " " + line.strip()
            elif line.strip() and re.match(r"[\w, *]+:", line):
                what, _, said = line.partition(":")
                items.append(f"- {', '.join(f'`{one.strip()}`' for one in what.split(','))}: {said.strip()}")
            elif line.strip():
                items.append(line.strip())
        out.append(f"{'Arguments' if title == 'Args' else title}:\n\n" + "\n".join(items))
    return "\n\n".join(out)


def entry(name: str) -> Iterator[str]:
    """The section of one public name."""
    thing = getattr(perdure, name)
    yield f"### {name}\n"
    if name in TOLD:
        yield TOLD[name] + "\n"
        return
    if not inspect.isclass(thing):
        yield f"```py\n{signature(f'perdure.{name}', thing)}\n```\n"
        yield text_of(thing) + "\n"
        return
    made = "__init__" not in INTERNAL.get(name, ())
    if made:
        yield f"```py\n{signature(name, thing.__init__, method=True)}\n```\n"
    yield text_of(thing, own=True) + "\n"
    if (
        made
        and thing.__init__.__doc__
        and "__init__" in vars(thing)
        and thing.__init__.__doc__ != object.__init__.__doc__
    ):
        yield text_of(thing.__init__).partition("\n\n")[2] + "\n"
    for attribute, value in members(thing):
        if attribute.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"**`{attribute}`**: {text_of(value.fget)}\n"
        elif callable(value) and inspect.isfunction(inspect.unwrap(value)):
            yield f"```py\n{signature(f'{name.lower()}.{attribute}', value, method=True)}\n```\n"
            yield text_of(value) + "\n"


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """What a class has of its own and of bases of ours that nobody sees by themselves."""
    for base in thing.__mro__:
        if base is thing or (base.__module__.startswith("perdure.") and base.__name__ not in perdure.__all__):
            yield from vars(base).items()


def generated() -> str:
    """Everything public, in its groups."""
    parts: list[str] = []
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        for name in names.split():
            parts += entry(name)
    return "\n".join(parts) + "\n"


def page(text: str) -> str:
    """The page with its generated part as it should be."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + "\n" + generated() + END + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
