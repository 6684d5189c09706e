"""Histories: a run's log outside any store. As JSON, and put into a store (whole, or cut short) by the store's verbs.

The file: ``{"format", "workflow", "version", "run_id", "uid", "python", "events", "artifacts"}``. An event is an object
with the columns of ``perdure.model.records.Event`` less ``run_key``; its kind is the word users see, payload and args
are base64, the hash is hex. Artifacts are base64 by the hex of their hash.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field

from perdure.model import chain, payloads
from perdure.model.records import FORMAT, Artifact, CommitItem, Event, Kind, NewRun, Verdict

ENDS = (Kind.RUN_COMPLETED, Kind.RUN_FAILED, Kind.RUN_CANCELLED, Kind.RUN_BLOCKED)
OUTCOMES = (Kind.STEP_COMPLETED, Kind.STEP_FAILED, Kind.STEP_CANCELLED)


@dataclass(frozen=True)
class History:
    """A run's log, with what is needed to put it into another store."""

    workflow: str
    version: str
    uid: bytes
    events: tuple[Event, ...]
    artifacts: dict[bytes, bytes] = field(default_factory=dict)
    python: str = ""

    def upto(self, count):
        """The log as a crash right after that many events would have left it."""
        return History(self.workflow, self.version, self.uid, self.events[:count], self.artifacts, self.python)

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
        return [Kind(e.kind).word for e in self.events]


def is_retried(event):
    return event.kind == Kind.STEP_FAILED and (event.payload or b"").startswith(b'{"next_at":')


# -- as JSON


def dump(history):
    """The history as a JSON document."""
    events = [
        {
            "seq": e.seq,
            "at": e.at,
            "epoch": e.epoch,
            "kind": Kind(e.kind).word,
            "key": e.key,
            "attempt": e.attempt,
            "took": e.took,
            "codec": e.codec,
            "payload": _text(e.payload),
            "args": _text(e.args),
            "hash": e.hash.hex(),
        }
        for e in history.events
    ]
    return json.dumps(
        {
            "format": FORMAT,
            "workflow": history.workflow,
            "version": history.version,
            "run_id": run_id_of(history),
            "uid": history.uid.hex(),
            "python": history.python,
            "events": events,
            "artifacts": {digest.hex(): _text(data) for digest, data in history.artifacts.items()},
        },
        indent=1,
    )


def load(text):
    """The history in a JSON document, its chain checked."""
    said = json.loads(text)
    assert said["format"] <= FORMAT
    events = tuple(
        Event(
            0,
            e["seq"],
            e["at"],
            e["epoch"],
            Kind[e["kind"].upper()],
            e["key"],
            e["attempt"],
            e["took"],
            e["codec"],
            _bytes(e["payload"]),
            _bytes(e["args"]),
            bytes.fromhex(e["hash"]),
        )
        for e in said["events"]
    )
    uid = bytes.fromhex(said["uid"])
    chain.check(uid, events, run_id=said["run_id"])
    artifacts = {bytes.fromhex(digest): _bytes(data) for digest, data in said["artifacts"].items()}
    return History(said["workflow"], said["version"], uid, events, artifacts, said["python"])


def run_id_of(history):
    return payloads.fields(history.events[0].args)["run_id"]


def _text(data):
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text):
    return None if text is None else base64.b64decode(text)


# -- into and out of a store


def read(store, row, python=""):
    """A run's history as the store has it."""
    events = []
    while page := store.read_events(row.run_key, events[-1].seq if events else 0):
        events += page
    chain.check(row.uid, events, run_id=row.run_id)
    artifacts = {e.payload: store.get_artifact(e.payload) for e in events if e.codec == payloads.REFERENCE}
    return History(row.workflow, row.version, row.uid, tuple(events), artifacts, python)


def put(store, worker_key, history, run_id, *, cancel=None):
    """Make a run with this log, claimable; returns its key. A ``cancel`` (its reason) is on its way to it.

    Whatever holders the run had, here one wrote all of it.
    """
    first, *rest = history.events
    assert rest and rest[0].kind == Kind.RUN_CLAIMED, "a history begins with its creation and a claim"
    new = NewRun(
        run_id=run_id,
        uid=history.uid,
        workflow=history.workflow,
        version=history.version,
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
