"""Whatever a store says of a run, it is explained; and workers are judged by lock and lease."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.diagnosis import Holder, Severity, Situation, explain
from perdure.diagnosis.kinds import RUNS
from perdure.model.history import ChildView, RunView, StepView
from perdure.model.queues import Limits, QueueRow, QueueUsage
from perdure.model.records import FORMAT, InboxKind, RunRow, Status
from perdure.model.standing import News, Sign, Standing, news_of
from perdure.store.protocol import Route

NOW = 10**15
INSTANTS = st.none() | st.integers(NOW - 10**9, NOW + 10**9)
NAMES = st.sampled_from(["a", "b", ""])
BUILDS = st.sampled_from(["old", "new"])
LIMIT = st.none() | st.integers(1, 3)


@st.composite
def rows(draw):
    status = draw(st.sampled_from(Status))
    held = draw(st.booleans()) and status is Status.RUNNING
    return RunRow(
        1, draw(NAMES), "r", b"u", draw(st.sampled_from(["greet", "great"])), draw(NAMES), draw(NAMES), status, 1,
        1 if held else None, 3, b"", 0, draw(st.integers(0, 3)), draw(INSTANTS), draw(INSTANTS), 0,
        draw(st.none() | NAMES),
        None, None, draw(st.none() | st.just("because")), None, draw(st.integers(FORMAT, FORMAT + 1)), NOW - 10**6,
        NOW if status.terminal else None,
    )  # fmt: skip


STEPS = st.builds(
    lambda status, at: StepView("s#1", "s", status, 2, 2, NOW - 5, next_at=at, failure=b"not a failure"),
    st.sampled_from(["running", "retrying", "completed", "failed"]), INSTANTS,
)  # fmt: skip
VIEWS = st.builds(
    lambda step, undone: RunView(
        updated_at=NOW - 10, steps={"s#1": step}, undone=undone, failed_steps=["s#1"],
        children={"c": ChildView("c", "c", "w", "running", 2)},
    ),
    STEPS, st.sampled_from([[], ["u#1"]]),
)  # fmt: skip
NEWS = st.lists(
    st.builds(News, st.sampled_from(list(InboxKind)), NAMES, st.integers(1, 9), st.just(NOW - 1)), max_size=2
)
STANDINGS = st.builds(
    Standing, st.booleans(), st.booleans(), st.integers(0, 2000), st.lists(BUILDS, unique=True).map(tuple),
    st.none() | st.lists(NAMES).map(tuple), NEWS.map(tuple), st.integers(0, 3),
)  # fmt: skip
LIVES = st.sampled_from(["alive", "frozen", "gone"])
HOLDERS = st.builds(Holder, NAMES, NAMES, st.integers(1, 9), BUILDS, INSTANTS, LIVES, st.integers(0, 5), st.booleans())
QUEUES = st.builds(
    lambda c, w, p, s, paused, held, at: QueueUsage(
        QueueRow(1, "", "a", Limits(c, w, p, s, s and 10), paused), held, 1, 1, at
    ),
    LIMIT, LIMIT, LIMIT, LIMIT, st.booleans(), st.integers(0, 9), INSTANTS,
)  # fmt: skip
ROUTES = st.builds(Route, st.sampled_from(["greet", "great"]), NAMES, NAMES, NAMES)
LONE = st.builds(
    Situation, rows(), VIEWS, st.none(), st.just(()), STANDINGS, st.just(NOW), INSTANTS, st.none() | HOLDERS,
    st.lists(HOLDERS, max_size=3).map(tuple), st.frozensets(ROUTES, max_size=3), st.none() | QUEUES,
)  # fmt: skip
SITUATIONS = st.recursive(
    LONE,
    lambda deeper: st.builds(
        lambda one, children, more: replace(one, children=tuple(children), more=more),
        LONE, st.lists(deeper, max_size=2), st.integers(0, 2),
    ),
    max_leaves=4,
)  # fmt: skip


@given(SITUATIONS)
@settings(max_examples=max(settings.default.max_examples // 3, 1))
def test_whatever_is_so_is_explained(situation):
    found = explain(situation)
    assert found.causes
    assert found.causes[0].depth == 0
    depth = 0
    for cause in found.causes:
        assert cause.finding.code in RUNS
        assert "{" not in cause.finding.advice + cause.finding.found
        assert 0 <= cause.depth <= depth + 1
        depth = cause.depth
    assert found.worst is max(cause.finding.severity for cause in found.causes)
    assert str(found)


@given(LONE)
def test_what_rules_a_claim_out_is_never_told_as_a_mere_line(situation):
    codes = {cause.finding.code for cause in explain(situation).causes}
    row, living = situation.row, [one for one in situation.workers if one.life == "alive" and one.serves]
    if "in-line" in codes:
        assert living
        assert Route(row.workflow, row.version, row.queue, row.namespace) in situation.served
        assert situation.queue is None or not situation.queue.row.paused
        assert not all(one.build in situation.standing.refused for one in living)
        assert not codes & {"no-worker", "no-code", "queue-paused", "queue-full", "queue-rate", "partition-full"}
    if row.status in {Status.COMPLETED, Status.CANCELLED}:
        assert explain(situation).worst <= Severity.NOTE


@given(st.sampled_from(["held", "free", "unknowable"]), st.none() | st.integers(0, 10), st.integers(0, 10))
def test_a_worker_lives_as_its_lock_and_its_lease_say(lock, leased_until, now):
    life = Sign(lock, leased_until).life(now)
    if lock == "free" or leased_until is None:
        assert life == "gone"
    elif leased_until > now:
        assert life == "alive"
    else:
        assert life == ("frozen" if lock == "held" else "gone")


@given(st.lists(st.tuples(st.integers(1, 3), NAMES, st.integers(0, 9))))
def test_news_is_grouped_whole(unread):
    found = news_of(unread)
    assert sum(one.times for one in found) == len(unread)
    for one in found:
        assert one.sent_at == min(at for kind, name, at in unread if (kind, name) == (one.kind, one.name))
