"""What a row of perdure_steps means, for any order in which holders of a run come to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perdure.model.transactions import Meaning, Row, is_whole, judge, row_id, seal

ATTEMPTS = st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["commits", "fails", "dies"])), max_size=30)


@given(ATTEMPTS)
def test_of_any_attempts_one_commits_at_most_and_none_after_a_later_holder_has_failed(
    attempts: list[tuple[int, str]],
) -> None:
    row: Row | None = None
    committed, failed_at = 0, 0
    for epoch, end in attempts:
        claimed = Row(epoch) if row is None else row._replace(epoch=max(row.epoch, epoch))
        meaning = judge(claimed, epoch)
        if meaning is Meaning.MINE:
            assert epoch >= failed_at
            if end == "commits":
                row = claimed._replace(outcome=b"1")
                committed += 1
            elif end == "fails":
                row = claimed
                failed_at = epoch
        else:
            assert committed == 1 if meaning is Meaning.DONE else epoch < failed_at
    assert committed <= 1


@given(st.integers(1), st.integers(1), st.none() | st.binary(max_size=3))
def test_what_is_committed_stands_and_only_a_later_holder_fences(epoch: int, seen: int, outcome: bytes | None) -> None:
    meaning = judge(Row(seen, outcome), epoch)
    assert (meaning is Meaning.DONE) == (outcome is not None)
    assert (meaning is Meaning.FENCED) == (outcome is None and seen > epoch)


NAMES = st.tuples(st.text(max_size=3), st.binary(min_size=16, max_size=16), st.text(max_size=3))


@given(NAMES, NAMES)
def test_only_the_same_step_has_the_same_row(one: tuple[str, bytes, str], other: tuple[str, bytes, str]) -> None:
    assert (row_id(*one) == row_id(*other)) == (one == other)


@given(st.binary(max_size=20), st.binary(max_size=20), st.data())
def test_a_row_with_another_byte_is_not_whole(outcome: bytes, args: bytes, data: st.DataObject) -> None:
    name = row_id("", b"u" * 16, "k#1")
    row = Row(1, outcome, args, 0, seal(name, outcome, args))
    assert is_whole(row, name)
    both = bytearray(outcome + args)
    if both:
        both[data.draw(st.integers(0, len(both) - 1))] ^= 1
        changed = row._replace(outcome=bytes(both[: len(outcome)]), args=bytes(both[len(outcome) :]))
        assert not is_whole(changed, name)
    assert not is_whole(row._replace(outcome=outcome + args[:1], args=args[1:]), name) or not args
    assert not is_whole(row, row_id("", b"u" * 16, "k#2"))
