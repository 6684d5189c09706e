"""Histories of runs: whole or cut short, out of a store, and into one by the store's own verbs."""

from __future__ import annotations

from collections import Counter

from perdure.model import chain, payloads
from perdure.model import histories as exported
from perdure.model.records import Artifact, CommitItem, InboxKind, Kind, Message, NewRun, Verdict

ENDS = (Kind.RUN_COMPLETED, Kind.RUN_FAILED, Kind.RUN_CANCELLED, Kind.RUN_BLOCKED)
OUTCOMES = (Kind.STEP_COMPLETED, Kind.STEP_FAILED, Kind.STEP_CANCELLED)


class History(exported.History):
    """A run's history, and what tests ask of it."""

    __slots__ = ()

    def upto(self, count):
        """The log as a crash right after that many events would have left it."""
        return self._replace(events=self.events[:count])

    def open_end(self):
        """The log up to, and without, its terminal event."""
        return self.upto(len(self.events) - (self.events[-1].kind in ENDS))

    def outcomes(self):
        """What steps ended with, by key. A retried failure is no outcome, nor is what a resume has set aside."""
        found = {}
        for event in self.events:
            if event.kind in OUTCOMES and not is_retried(event):
                assert event.key not in found, f"{event.key} has more than one outcome"
                found[event.key] = event
            elif event.kind == Kind.RUN_RESUMED:
                aside = payloads.fields(event.payload)["supersede"]
                since = min((found[key].seq for key in aside), default=event.seq)
                found = {
                    key: e
                    for key, e in found.items()
                    if key not in aside and not (e.kind == Kind.STEP_CANCELLED and e.seq > since)
                }
        return found

    def kinds(self):
        return [e.word for e in self.events]


def is_retried(event):
    return event.kind == Kind.STEP_FAILED and (event.payload or b"").startswith(b'{"next_at":')


def on_its_way(history, run_key):
    """The messages that a run had sent itself and not received; the n-th of a name has the value n."""
    received = Counter(
        payloads.fields(event.args)["name"] for event in history.events if event.kind == Kind.SIGNAL_RECEIVED
    )
    sent = Counter()
    owed = []
    for event in history.events:
        if event.kind == Kind.MESSAGE_SENT:
            name = payloads.fields(event.payload)["name"]
            if sent[name] >= received[name]:
                owed.append(Message(InboxKind.SIGNAL, run_key, name=name, payload=b"%d" % sent[name]))
            sent[name] += 1
    return owed


# -- into and out of a store


def read(store, row):
    """A run's history as the store has it."""
    events = []
    while page := store.read_events(row.run_key, events[-1].seq if events else 0):
        events += page
    chain.check(row.uid, events, run_id=row.run_id)
    return History(row, events, {digest: store.get_artifact(digest) for digest in exported.referenced(events)})


def put(store, worker_key, history, run_id, *, cancel=None):
    """Make a run with this log, claimable; returns its key. A ``cancel`` (its reason) is on its way to it.

    Whatever holders the run had, here one wrote all of it.
    """
    first, *rest = history.events
    assert rest and rest[0].kind == Kind.RUN_CLAIMED, "a history begins with its creation and a claim"
    new = NewRun(
        run_id=run_id,
        uid=history.row.uid,
        workflow=history.row.workflow,
        version=history.row.version,
        created_at=first.at,
        codec=first.codec,
        payload=first.payload,
        origin=first.args,
        artifacts=tuple(Artifact(digest, len(data), data) for digest, data in history.artifacts.items()),
    )
    made = store.create_runs([new], claim_for=worker_key, facts=rest[0].payload or b"", now=rest[0].at)[0]
    assert made.claim is not None, f"run {run_id} was there already"
    last, key, epoch = made.claim.events[-1], made.row.run_key, made.row.epoch
    assert last.at == rest[0].at
    events = []
    for event in rest[1:]:
        last = chain.seal(last.hash, key, last.seq + 1, event.at, epoch, *event[4:11])
        events.append(last)
    if events:
        assert store.commit([CommitItem(key, epoch, events)]) == [Verdict.APPLIED]
    if cancel is not None:
        store.request_cancel(key, cancel)
    store.release(worker_key, [key])
    return key
