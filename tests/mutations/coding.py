"""Protections of what is stored: codecs, and keys."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_STORES = "codecs/test_stores.py::"
_UNREADABLE = _STORES + "test_nothing_that_users_give_or_get_is_readable_in_the_store[sqlite]"
_KEYS = "codecs/test_encryption.py::"

CODING = [
    Mutation(
        "arguments are coded",
        "model/coding.py",
        "args = self.encode(args)",
        "pass",
        _UNREADABLE,
    ),
    Mutation(
        "messages are coded",
        "store/coded.py",
        "return message._replace(codec=codec, payload=payload, artifacts=artifacts)",
        "return message",
        _UNREADABLE,
    ),
    Mutation(
        "inputs of children are coded",
        "store/coded.py",
        "item.children = [_coded_run(codecs, run) for run in item.children]",
        "pass",
        _UNREADABLE,
    ),
    Mutation(
        "the input of a run that goes on as a new one is coded",
        "store/coded.py",
        "item.successor = item.successor._replace(run=_coded_run(codecs, item.successor.run))",
        "pass",
        _UNREADABLE,
    ),
    Mutation(
        "inputs of schedules are coded",
        "store/coded.py",
        "return change._replace(row=row._replace(codec=codec, payload=payload), runs=runs, artifacts=artifacts)",
        "return change._replace(runs=runs)",
        _UNREADABLE,
    ),
    Mutation(
        "the text of a failure is coded",
        "runtime/outcomes.py",
        "said = payloads.failed(run.host.codecs.failure(failure))\n    run.record(Kind.STEP_FAILED, key,",
        "said = payloads.failed(failure)\n    run.record(Kind.STEP_FAILED, key,",
        _UNREADABLE,
    ),
    Mutation(
        "artifacts kept by name are coded",
        "runtime/code_view.py",
        "artifact = self._run.host.codecs.artifact(plain)",
        "artifact = plain",
        _UNREADABLE,
    ),
    Mutation(
        "the values that a run has departed from are coded",
        "runtime/endings.py",
        'recorded=run.host.codecs.said(_text(error.fields.get("recorded"))),',
        'recorded=_text(error.fields.get("recorded")),',
        _UNREADABLE,
    ),
    Mutation(
        "an encrypted store is not opened without its key",
        "store/coded.py",
        "            raise locked()\n        bound.append",
        "            pass\n        bound.append",
        _KEYS + "test_an_encrypted_store_is_not_opened_without_a_key[sqlite]",
    ),
    Mutation(
        "what a codec that is not here has made stops the run",
        "runtime/run.py",
        "self.host.codecs.check(self.events)",
        "pass",
        _STORES + "test_a_run_whose_codec_is_not_here_is_blocked_and_goes_on_when_it_is[sqlite]",
    ),
    Mutation(
        "the head of an encrypted value is authenticated",
        "codecs/encryption.py",
        "data[_HEAD + _NONCE :], head)",
        "data[_HEAD + _NONCE :], None)",
        _KEYS + "test_nothing_is_readable_and_nothing_is_the_same_twice[sqlite]",
    ),
    Mutation(
        "a rotation wraps a key anew only if nobody was quicker",
        "store/sqlite/queries/keys.sql",
        "AND ((master = ?2 AND wrapped = ?3) OR wrapped = ?5)",
        "",
        "store/test_suite.py::test_store[sqlite-a_key_is_wrapped_anew_if_it_is_as_it_was_seen]",
    ),
]
