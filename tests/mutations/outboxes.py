"""The protections of what is enqueued and sent in transactions of the user's; part of the table."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_OUTBOX = "transactional/test_outbox.py::test_"
_BROUGHT = _OUTBOX + "what_is_rolled_back_never_was_and_what_is_committed_comes_once_and_in_order[sqlite3-sqlite]"
_REFUSED = _OUTBOX + "what_is_in_no_transaction_or_has_no_outbox_is_refused[async-psycopg-sqlite]"
_DIRECT = _OUTBOX + "in_the_stores_own_database_runs_are_created_in_the_transaction_itself[postgres]"

OUTBOXES = [
    Mutation(
        "a changed entry of an outbox is found out", "model/outbox.py",
        "    if entry.seal != _seal(entry.kind, entry.run, entry.body, entry.payload, store_id):\n", "    if False:\n",
        "model/test_outbox.py::test_a_changed_byte_is_found_out",
    ),
    Mutation(
        "a connection that commits each statement by itself is refused", "transactional/guests.py",
        "        if self.raw.isolation_level is None or ", "        if False and ",
        _OUTBOX + "what_is_in_no_transaction_or_has_no_outbox_is_refused[sqlite3-sqlite]",
    ),
    Mutation(
        "so is one of psycopg's", "transactional/guests.py",
        "        if self.raw.autocommit:\n", "        if False:\n",
        _REFUSED,
    ),
    Mutation(
        "a workflow's own code enqueues in nobody's transaction", "context.py",
        '    if current_run() is not None:\n        raise DefinitionError(\n            "within=',
        '    if False:\n        raise DefinitionError(\n            "within=',
        _REFUSED,
    ),
    Mutation(
        "a signal that is sent a second time is known by its key", "operations/joining.py",
        "dedup = os.urandom(16).hex() if what.dedup is None else what.dedup", "dedup = what.dedup",
        _OUTBOX + "callers_and_relays_die_at_every_point_and_each_committed_order_is_shipped_once[sqlite-sqlite]",
    ),
    Mutation(
        "a run that is yet to come is waited for", "waiting.py",
        "if not handle.is_expected or self._fault is not None:", "if True:",
        _BROUGHT,
    ),
    Mutation(
        "runs are created only in a database that is the store's own", "store/postgres/store.py",
        'if session.fetch("store_id") != [(self.store_id, self._database)]:', "if False:",
        _DIRECT,
    ),
    Mutation(
        "nor where texts go over the connection in another encoding", "store/postgres/joining.py",
        ' or connection.info.encoding != "utf-8"', "",
        _DIRECT,
    ),
    Mutation(
        "nor where the role may not write", "store/postgres/store.py",
        'if session is None or not session.fetch_value("is_open_to", self._connector.address.schema):',
        "if session is None:",
        _DIRECT,
    ),
    Mutation(
        "a relay holds no write lock while it waits for its loop", "relaying.py",
        "            await transaction.rollback()\n        return [", "            pass\n        return [",
        _OUTBOX + "what_cannot_be_sent_is_set_aside_and_keeps_nobody[sqlite]",
        slow=True,
    ),
]  # fmt: skip
