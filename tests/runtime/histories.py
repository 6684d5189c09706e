"""Histories: a run's log outside any store. As JSON, and put into a store (whole, or cut short) by the store's own verbs.

The file: ``{"format", "workflow", "version", "run_id", "uid", "python", "events", "artifacts"}``. An event is an object with
the columns of ``perdure.model.records.Event`` less ``run_key``; its kind is the word users see, payload and args are base64,
the hash is hex. Artifacts are base64 by the hex of their hash.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from hashlib import sha256

from perdure.model import chain, payloads
from perdure.model.records import FORMAT, Artifact, CommitItem, Event, Kind, NewRun, StateChange, Status
from perdure.store.protocol import Route

ENDS = {
    Kind.RUN_COMPLETED: Status.COMPLETED, Kind.RUN_FAILED: Status.FAILED, Kind.RUN_CANCELLED: Status.CANCELLED,
    Kind.RUN_BLOCKED: Status.BLOCKED,
}
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
        """What steps ended with, by key: their last recorded outcome (a failure that is retried is none)."""
        return {e.key: e for e in self.events if e.kind in OUTCOMES and not is_retried(e)}

    def kinds(self):
        return [Kind(e.kind).word for e in self.events]


def is_retried(event):
    return event.kind == Kind.STEP_FAILED and (event.payload or b"").startswith(b'{"next_at":')


# -- as JSON


def dump(history):
    """The history as a JSON document."""
    events = [
        {
            "seq": e.seq, "at": e.at, "epoch": e.epoch, "kind": Kind(e.kind).word, "key": e.key, "attempt": e.attempt,
            "took": e.took, "codec": e.codec, "payload": _text(e.payload), "args": _text(e.args), "hash": e.hash.hex(),
        }
        for e in history.events
    ]
    return json.dumps({
        "format": FORMAT, "workflow": history.workflow, "version": history.version, "run_id": run_id_of(history),
        "uid": history.uid.hex(), "python": history.python, "events": events,
        "artifacts": {digest.hex(): _text(data) for digest, data in history.artifacts.items()},
    }, indent=1)


def load(text):
    """The history in a JSON document, its chain checked."""
    said = json.loads(text)
    assert said["format"] <= FORMAT
    events = tuple(
        Event(
            0, e["seq"], e["at"], e["epoch"], Kind[e["kind"].upper()], e["key"], e["attempt"], e["took"], e["codec"],
            _bytes(e["payload"]), _bytes(e["args"]), bytes.fromhex(e["hash"]),
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


class Import:
    """Plays the holders of a run, event by event, so that a store holds the history; ``finish`` leaves it claimable."""

    def __init__(self, store, worker_key, history, run_id):
        self.store, self.worker, self.history = store, worker_key, history
        first = history.events[0]
        kept = tuple(Artifact(h, len(d), d) for h, d in history.artifacts.items())
        self.row = store.create_runs([NewRun(
            run_id=run_id, uid=history.uid, workflow=history.workflow, version=history.version, created_at=first.at,
            codec=first.codec, payload=first.payload, origin=first.args, artifacts=kept,
        )])[0].row
        self.run_key = self.row.run_key
        self.seq, self.link, self.epoch, self.held = 1, self.row.hash, 0, False
        for event in history.events[1:]:
            self._play(event)

    def _play(self, event):
        store, kind = self.store, event.kind
        if kind == Kind.RUN_CLAIMED:
            if self.held:  # its predecessor was lost without a word
                store.release(self.worker, [self.run_key])
            found = store.claim_runs(
                self.worker, [Route(self.history.workflow, self.history.version)], 1, facts=event.payload or b"",
                only=self.run_key, now=event.at,
            )
            assert found, f"event {event.seq} claims a run that is not claimable"
            self._catch_up(found[0].row)
        elif kind in {Kind.RUN_RELEASED, Kind.RUN_RECLAIMED}:
            store.release(self.worker, [self.run_key])
            self._catch_up(store.get_runs([self.run_key])[0])
        elif kind == Kind.RUN_RESUMED:
            self._catch_up(store.resume_run(self.run_key, event.payload, now=event.at))
        elif not self.held and kind in ENDS:
            store.request_cancel(self.run_key, payloads.fields(event.payload)["reason"], now=event.at)
            self._catch_up(store.get_runs([self.run_key])[0])
        else:
            self._append(event)

    def _append(self, event):
        self.seq += 1
        sealed = chain.seal(self.link, self.run_key, self.seq, event.at, self.epoch, *event[4:11])
        self.link = sealed.hash
        state = None
        if event.kind == Kind.RUN_SUSPENDED:
            said = payloads.fields(event.payload)
            state = StateChange(Status[said["status"].upper()], wake_at=said["wake_at"])
        elif event.kind in ENDS:
            state = StateChange(ENDS[Kind(event.kind)])
        verdicts = self.store.commit([CommitItem(self.run_key, self.epoch, [sealed], state=state)])
        assert verdicts[0] <= 2, verdicts
        self.held = state is None

    def _catch_up(self, row):
        self.seq, self.link, self.epoch, self.held = row.seq, row.hash, row.epoch, row.worker_key is not None

    def finish(self):
        """Let the run go, to be claimed by whoever comes."""
        if self.held:
            self.store.release(self.worker, [self.run_key])
        return self.run_key


def digest(data):
    return sha256(data).digest()
