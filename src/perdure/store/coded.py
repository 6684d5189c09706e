"""A store behind codecs: what is written goes through them, what is read comes back as it was.

Everything above the store sees plain payloads; the store sees, and hashes, what codecs have made of them. Events are
coded by whoever seals them (``perdure.runtime``), since their hash is over what is stored; all else is coded here.
What cannot be undone here is given as it is stored, and whoever needs it is told by ``Codecs.check`` or ``load``.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, cast

from perdure.codecs import known
from perdure.codecs.encryption import NAME, Encryption, Locked, locked
from perdure.errors import CodecMissing
from perdure.model.coding import NONE, Codecs
from perdure.model.payloads import CODED, REFERENCE, pack
from perdure.model.records import InboxKind
from perdure.store.protocol import PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.model.coding import Codec
    from perdure.model.records import Artifact, Claim, CommitItem, Created, Delivery, Event, Message, NewRun, Verdict
    from perdure.model.schedules import ScheduleChange, ScheduleRow
    from perdure.store.protocol import Joined, Store
    from perdure.store.talk import Talk

KEPT = 16
"""Large inputs of schedules that are remembered: as they are, and where they are stored."""


class CodedStore:
    """Passes everything on to a store, through codecs; see the module's text."""

    def __init__(self, inner: Store, codecs: Codecs) -> None:
        self.inner = inner
        self.codecs = codecs
        self.inline = inner.inline  # asked for all the time
        self._large: OrderedDict[bytes, tuple[int, bytes, bytes]] = OrderedDict()
        if not codecs:  # nothing is changed on the way in
            self.commit = inner.commit  # type: ignore[method-assign]
            self.deliver = inner.deliver  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return repr(self.inner)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if callable(value):
            self.__dict__[name] = value  # asked for once
        return value

    @property
    def hasty(self) -> bool:
        """As of the store."""
        return self.inner.hasty

    @hasty.setter
    def hasty(self, hasty: bool) -> None:
        self.inner.hasty = hasty

    # -- on the way in

    def create_runs(self, new: Sequence[NewRun], /, **options: Any) -> list[Created]:
        """See ``Store.create_runs``."""
        codecs = self.codecs
        made = self.inner.create_runs([_coded_run(codecs, run) for run in new] if codecs else new, **options)
        for one in made:
            if one.claim is not None:
                codecs.opened(one.claim.events)
        return made

    def commit(self, items: Sequence[CommitItem], *, wait: bool = True) -> list[Verdict]:
        """See ``Store.commit``; the events of the items are coded already."""
        codecs = self.codecs
        for item in items:
            if item.children:
                item.children = [_coded_run(codecs, run) for run in item.children]
            if item.sends:
                item.sends = [_coded_message(codecs, message) for message in item.sends]
            if item.successor is not None:
                item.successor = item.successor._replace(run=_coded_run(codecs, item.successor.run))
        return self.inner.commit(items, wait=wait)

    def deliver(self, messages: Sequence[Message], *, now: int | None = None) -> list[Delivery]:
        """See ``Store.deliver``."""
        return self.inner.deliver([_coded_message(self.codecs, message) for message in messages], now=now)

    def joined(self, connection: object, /) -> Joined | None:
        """See ``Store.joined``."""
        joined = self.inner.joined(connection)
        return None if joined is None else CodedJoined(joined, self.codecs)

    def change_schedules(self, changes: Sequence[ScheduleChange], **options: Any) -> list[Verdict]:
        """See ``Store.change_schedules``."""
        return self.inner.change_schedules([self._coded_change(change) for change in changes], **options)

    def _coded_change(self, change: ScheduleChange) -> ScheduleChange:
        codecs, row = self.codecs, change.row
        runs = tuple(_coded_run(codecs, run) for run in change.runs) if codecs else change.runs
        known = self._large.get(row.payload) if row.codec == REFERENCE else None
        if known is not None:
            return change._replace(row=row._replace(codec=known[0], payload=known[1]), runs=runs, artifacts=())
        if not codecs:
            return change
        kept = next((one for one in change.artifacts if one.hash == row.payload), None)
        codec, payload, artifact = codecs.value(row.codec, row.payload, kept)
        artifacts = change.artifacts if kept is None else () if artifact is None else (artifact,)
        return change._replace(row=row._replace(codec=codec, payload=payload), runs=runs, artifacts=artifacts)

    def start_create(self, new: Sequence[NewRun], /, **options: Any) -> Talk[list[Created]] | None:
        """See ``Store.start_create``; nothing where values are coded first, which takes its time."""
        return None if self.codecs else self.inner.start_create(new, **options)

    # -- on the way back

    def claim_runs(self, *args: Any, **options: Any) -> list[Claim]:
        """See ``Store.claim_runs``."""
        return _opened(self.inner.claim_runs(*args, **options), self.codecs)

    def refuse_run(self, *args: Any) -> list[Event]:
        """See ``Store.refuse_run``."""
        return self.codecs.opened(self.inner.refuse_run(*args))

    def read_events(self, *args: Any, **options: Any) -> list[Event]:
        """See ``Store.read_events``."""
        return self.codecs.opened(self.inner.read_events(*args, **options))

    def start_claims(self, *args: Any, **options: Any) -> Talk[list[Claim]] | None:
        """See ``Store.start_claims``."""
        talk = self.inner.start_claims(*args, **options)
        return None if talk is None else _CodedClaims(talk, self.codecs)

    def get_artifact(self, digest: bytes) -> bytes | None:
        """See ``Store.get_artifact``: what is kept of codecs' making is given as it is stored."""
        large = self._large.get(digest)
        return self.inner.get_artifact(digest) if large is None else large[2]

    def get_schedule(self, *args: Any) -> ScheduleRow | None:
        """See ``Store.get_schedule``."""
        row = self.inner.get_schedule(*args)
        return None if row is None else self._opened(row)

    def list_schedules(self, *args: Any, **options: Any) -> list[ScheduleRow]:
        """See ``Store.list_schedules``."""
        return [self._opened(row) for row in self.inner.list_schedules(*args, **options)]

    def due_schedules(self, *args: Any, **options: Any) -> list[ScheduleRow]:
        """See ``Store.due_schedules``."""
        return [self._opened(row) for row in self.inner.due_schedules(*args, **options)]

    def _opened(self, row: ScheduleRow) -> ScheduleRow:
        """Undo in a schedule what codecs have made of its input; a large one is given as an artifact of its own."""
        if not row.codec & CODED:
            return row
        try:
            data = self.codecs.load(row.codec, row.payload, self.inner.get_artifact)
        except CodecMissing:
            return row
        codec, payload, artifact = pack(data)
        if artifact is not None:
            self._large[payload] = row.codec, row.payload, data
            if len(self._large) > KEPT:
                self._large.popitem(last=False)
        return row._replace(codec=codec, payload=payload)


class _CodedClaims:
    """What is being claimed, through codecs."""

    def __init__(self, talk: Talk[list[Claim]], codecs: Codecs) -> None:
        self._talk, self._codecs = talk, codecs
        self.go_on, self.abandon = talk.go_on, talk.abandon
        self.fileno = talk.fileno

    @property
    def unsent(self) -> bool:
        """See ``Talk``."""
        return self._talk.unsent

    def outcome(self) -> list[Claim]:
        """See ``Talk``."""
        return _opened(self._talk.outcome(), self._codecs)


class CodedJoined:
    """What creates runs in somebody else's transaction, behind codecs."""

    def __init__(self, inner: Joined, codecs: Codecs) -> None:
        self.codecs = codecs
        self._inner = inner
        self.get_run, self.get_artifact = inner.get_run, inner.get_artifact

    def create_runs(self, new: Sequence[NewRun], /, *, claim_for: None = None, facts: bytes = b"") -> list[Created]:
        """See ``Store.create_runs``."""
        coded_runs = [_coded_run(self.codecs, run) for run in new]
        return self._inner.create_runs(coded_runs, claim_for=claim_for, facts=facts)

    def read_events(self, run_key: int, after: int = 0, limit: int = PAGE) -> list[Event]:
        """See ``Store.read_events``."""
        return self.codecs.opened(self._inner.read_events(run_key, after, limit))


def coded(store: Store, codecs: Sequence[Codec], *, may_be_locked: bool = False) -> Store:
    """Put a store behind codecs.

    Args:
        store: what is stored.
        codecs: what is written goes through them, in this order.
        may_be_locked: let an encrypted store be looked at by who has no key. (Values are not shown then.)

    Raises:
        CodecMissing: the store is encrypted, and no key for it is given.
    """
    if codecs_of(store) is not NONE:  # it is behind codecs already
        return store
    bound: list[Codec] = []
    for codec in codecs:
        if isinstance(codec, Encryption):
            here = codec.bound(store)
            if not may_be_locked:
                here.prepare()
            bound.append(here)
        else:
            bound.append(codec)
    if not any(codec.name == NAME for codec in bound) and store.read_keys():
        if not may_be_locked:
            raise locked()
        bound.append(Locked())
    return cast("Store", cast("object", CodedStore(store, Codecs(bound, known))))


def codecs_of(store: object) -> Codecs:
    """Return the codecs that a store is behind."""
    return getattr(store, "codecs", NONE)


def stored_by(store: Store) -> Store:
    """Return the store that is behind codecs, which gives what is stored."""
    return store.inner if isinstance(store, CodedStore) else store


def _opened(claims: list[Claim], codecs: Codecs) -> list[Claim]:
    for claim in claims:
        codecs.opened(claim.events)
    return claims


def _coded_run(codecs: Codecs, run: NewRun) -> NewRun:
    codec, payload, artifacts = _coded_value(codecs, run.codec, run.payload, run.artifacts)
    return run._replace(codec=codec, payload=payload, artifacts=artifacts)


def _coded_message(codecs: Codecs, message: Message) -> Message:
    if message.payload is None:
        return message
    if message.kind != InboxKind.SIGNAL:  # what a child has ended with is coded already
        return message
    codec, payload, artifacts = _coded_value(codecs, message.codec, message.payload, message.artifacts)
    return message._replace(codec=codec, payload=payload, artifacts=artifacts)


def _coded_value(
    codecs: Codecs, codec: int, payload: bytes, artifacts: tuple[Artifact, ...]
) -> tuple[int, bytes, tuple[Artifact, ...]]:
    codec, payload, artifact = codecs.value(codec, payload, artifacts[0] if artifacts else None)
    return codec, payload, () if artifact is None else (artifact,)


__all__ = ["CodedStore", "codecs_of", "coded", "stored_by"]
