"""The command line and encrypted stores: with the key as ever, without it nothing is shown, written or harmed."""

from __future__ import annotations

import json
import os

import pytest

from perdure import Engine
from perdure.cli.exits import Exit
from perdure.codecs import new_key
from perdure.config import setting
from perdure.errors import DefinitionError

SECRET = "s3cret"  # noqa: S105 - it is to be shown to nobody without a key


@pytest.fixture
def key(perdure, monkeypatch):
    """The key of a store with a run of the secret in it."""
    key = new_key()
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", key)
    ran = perdure("run", "tests.cli.shop:fulfil", "--input", json.dumps({"id": SECRET}), "--run-id", "r")
    assert ran.exit_code == Exit.OK, ran.stderr
    return key


READING = [("show", "r"), ("show", "r", "--json"), ("events", "r"), ("events", "r", "--json"), ("runs",), ("why", "r")]


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_without_the_key_everything_is_shown_but_values(perdure, key, monkeypatch, command):
    with_key = perdure(*command)
    monkeypatch.delenv("PERDURE_ENCRYPTION_KEYS")
    without = perdure(*command)
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", new_key())
    with_another = perdure(*command)
    assert {with_key.exit_code, without.exit_code, with_another.exit_code} == {Exit.OK}
    assert (SECRET in with_key.stdout) == (command[0] in {"show", "events"})
    for told in (without, with_another):
        assert SECRET not in told.stdout
        assert "fulfil" in told.stdout or command[0] in {"events", "why"}


def test_without_the_key_nothing_is_written(perdure, key, monkeypatch):
    monkeypatch.delenv("PERDURE_ENCRYPTION_KEYS")
    told = perdure("signal", "r", "word", json.dumps(SECRET))
    assert told.exit_code != Exit.OK
    assert "no key is given" in told.stderr
    told = perdure("run", "tests.cli.shop:fulfil", "--input", json.dumps({"id": SECRET}), "--run-id", "r2")
    assert told.exit_code != Exit.OK
    assert "PERDURE_ENCRYPTION_KEYS" in told.stderr
    told = perdure("export", "r")
    assert (told.exit_code != Exit.OK, SECRET in told.stdout) == (True, False)
    assert perdure("verify").exit_code == Exit.OK


def test_a_key_is_made_and_rotated_and_the_old_one_is_needed_no_more(perdure, key, monkeypatch):
    newer = perdure("keys", "new").stdout.strip()
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", newer)
    refused = perdure("rotate-keys")
    assert refused.exit_code != Exit.OK
    assert "which is not given" in refused.stderr
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", f"{newer},{key}")
    rotated = json.loads(perdure("rotate-keys", "--json").stdout)
    assert (rotated["rewrapped"], rotated["already"]) == (1, 0)
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", newer)
    assert SECRET in perdure("show", "r").stdout
    listed = json.loads(perdure("keys", "--json").stdout)
    assert [one["master"] for one in listed] == [rotated["master"]] * 2
    assert listed[-1]["key"] == rotated["added"]
    assert "reads and writes" in perdure("keys").stdout


def test_a_store_without_encryption_has_no_keys(perdure, start):
    assert perdure("run", "tests.cli.shop:fulfil", "--input", '{"id": "1"}').exit_code == Exit.OK
    assert "nothing is encrypted" in perdure("keys").stdout
    assert json.loads(perdure("keys", "--json").stdout) == []
    told = perdure("rotate-keys")
    assert "no key is given" in told.stderr


@pytest.mark.only("sqlite")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("store = 7", "is int, not text"),
        ("colour = 'red'", "sets colour, which is no setting"),
        ("encryption_keys = ['x']", "would be a secret in a file"),
        ("compress = 'perhaps'", "say true or false"),
        ("codecs = 'nowhere:codec'", "no codec can be imported as 'nowhere:codec'"),
        ("codecs = ['json:dumps']", "is no codec"),
        ("encryption_keys_file = 'none.key'", "cannot be read"),
        ("store = ", "cannot be read"),
    ],
)
def test_wrong_settings_are_refused_by_name(perdure, tmp_path, monkeypatch, text, said):
    (tmp_path / "perdure.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    if text.startswith("store"):
        monkeypatch.delenv("PERDURE_STORE")
    told = perdure("run", "tests.cli.shop:fulfil", "--input", '{"id": "1"}')
    assert told.exit_code != Exit.OK
    assert said in " ".join(told.stderr.split())


@pytest.mark.only("sqlite")
def test_a_setting_is_taken_from_the_environment_else_the_file_and_it_is_shown_from_where(
    perdure, tmp_path, monkeypatch
):
    (tmp_path / "perdure.toml").write_text("concurrency = 3\nlease = '1m'\ncompress = true", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_CONCURRENCY", "7")
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", f"{SECRET},other")
    told = perdure("config", "show", "--json")
    assert SECRET not in told.stdout + perdure("config").stdout
    said = json.loads(told.stdout)
    file = str(tmp_path / "perdure.toml")
    assert {name: (one["value"], one["origin"]) for name, one in said.items() if one["origin"] != "default"} == {
        "store": (os.environ["PERDURE_STORE"], "PERDURE_STORE"),
        "concurrency": (7, "PERDURE_CONCURRENCY"),
        "lease": ("1m", file),
        "compress": (True, file),
        "encryption_keys": (["hidden (2)"], "PERDURE_ENCRYPTION_KEYS"),
    }
    assert setting("concurrency", 5) == 5
    assert setting("concurrency") == 7


@pytest.mark.only("sqlite")
@pytest.mark.parametrize(
    ("variable", "value"), [("CONCURRENCY", "many"), ("LEASE", "soon"), ("DURABILITY", "ram"), ("ON_DRIFT", "ignore")]
)
def test_an_engine_does_not_start_with_a_wrong_setting(monkeypatch, variable, value):
    monkeypatch.setenv(f"PERDURE_{variable}", value)
    with pytest.raises(DefinitionError, match=value):
        Engine("somewhere.db")


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_what_is_to_be_redacted_is_not_shown(perdure, key, monkeypatch, command):
    monkeypatch.setenv("PERDURE_REDACT", "nothing,*id,result")
    told = perdure(*command)
    assert told.exit_code == Exit.OK
    assert f'"{SECRET}"' not in told.stdout


@pytest.mark.only("sqlite")
def test_settings_come_from_the_nearest_file_and_paths_are_relative_to_it(perdure, tmp_path, monkeypatch):
    key = new_key()
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "perdure.toml").write_text("store = 'other.db'", encoding="utf-8")
    (tmp_path / "a" / "my.key").write_text(key + "\n", encoding="ascii")
    (tmp_path / "a" / "pyproject.toml").write_text(
        "[tool.perdure]\nstore = 'data/runs.db'\nencryption_keys_file = 'my.key'\nnamespace = 'shop'", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path / "a" / "b")
    monkeypatch.delenv("PERDURE_STORE")
    ran = perdure("run", "tests.cli.shop:fulfil", "--input", json.dumps({"id": SECRET}), "--run-id", "r")
    assert ran.exit_code == Exit.OK, ran.stderr
    assert SECRET.encode() not in (tmp_path / "a" / "data" / "runs.db").read_bytes()
    assert not (tmp_path / "other.db").exists()
    assert json.loads(perdure("show", "r", "--json").stdout)["namespace"] == "shop"
