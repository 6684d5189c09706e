"""``perdure stream``, and what ``show`` and ``events`` say of progress and streams."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import SHOP, order, until


@pytest.fixture
def told(perdure):
    assert perdure("run", f"{SHOP}:tell", "--input", "3", "--run-id", "t").exit_code == 0


@pytest.mark.usefixtures("told")
class TestStream:
    def test_one_value_a_line_as_json(self, perdure):
        assert perdure("stream", "t", "lines").stdout == '"line 0\\n"\n"line 1\\n"\n"line 2\\n"\n'
        assert perdure("stream", "t").stdout == '{"is": "a beginning"}\n'

    def test_raw_prints_texts_as_they_are(self, perdure):
        assert perdure("stream", "t", "lines", "--raw").stdout == "line 0\nline 1\nline 2\n"

    def test_json_says_whose_each_value_is_and_where_to_go_on(self, perdure):
        told = [json.loads(line) for line in perdure("stream", "t", "lines", "--json").stdout.splitlines()]
        assert [one["value"] for one in told] == ["line 0\n", "line 1\n", "line 2\n"]
        assert {(one["key"], one["attempt"]) for one in told} == {("recite#1", 1)}
        rest = perdure("stream", "t", "lines", "--json", "--follow", "--after", told[0]["seq"])
        assert [json.loads(line) for line in rest.stdout.splitlines()] == told[1:]

    def test_where_there_is_nothing_it_says_what_there_is(self, perdure):
        nothing = perdure("stream", "t", "words")
        assert (nothing.exit_code, nothing.stdout) == (0, "")
        assert nothing.stderr == "perdure: run t has emitted nothing to words; it has default, lines\n"
        assert perdure("stream", "nobody").exit_code == 4
        assert perdure("stream", "t", "a/b").exit_code == 2

    def test_a_large_value_is_printed_whole(self, perdure):
        assert perdure("run", f"{SHOP}:tell", "--input", "-1", "--run-id", "large").exit_code == 0
        assert json.loads(perdure("stream", "large", "lines").stdout) == "x" * 100_000

    def test_show_counts_them(self, perdure):
        out = perdure("show", "t").stdout
        assert "stream   default: 1 value\n" in out
        assert "stream   lines: 3 values\n" in out
        assert json.loads(perdure("show", "t", "--json").stdout)["streams"] == {"default": 1, "lines": 3}

    def test_a_replay_emits_nothing_and_finds_nothing_missing(self, perdure):
        before = perdure("events", "t").stdout
        assert perdure("replay", "t").exit_code == 0
        assert perdure("events", "t").stdout == before

    def test_events_name_the_stream(self, perdure):
        out = perdure("events", "t").stdout
        assert 'default: {"is": "a beginning"}' in out
        events = [json.loads(line) for line in perdure("events", "t", "--json").stdout.splitlines()]
        emitted = [(one["args"], one["value"]) for one in events if one["kind"] == "emitted"]
        assert emitted[1] == ({"stream": "lines"}, "line 0\n")


def test_who_follows_sees_values_and_progress_while_the_step_runs(perdure, start, log, gate):
    worker = start(*order("x", workflow="slow"))
    until(lambda: any(event.key == "hold#1" for event in log("x")), worker)
    following = start("stream", "x", "held", "--follow")
    assert following.stdout.readline() == '"holding x"\n'
    assert "holding on" in perdure("show", "x").stdout
    gate("hold")
    assert worker.wait(20) == following.wait(20) == 0
    assert following.stdout.read() == ""
