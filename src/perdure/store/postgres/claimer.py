"""The claims of a store's workers, and what they may have claimed without being told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.store.postgres.claims import find_claims

if TYPE_CHECKING:
    from perdure.model.records import Claim
    from perdure.store.postgres.claims import Claiming, Plain
    from perdure.store.postgres.connection import Reader, Writer
    from perdure.store.talk import Talk


class Claims:
    """Claims through one connection; what is to be claimed is looked for through another, if somebody waits."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader
        self._doubts: dict[int, list[tuple[int, int]]] = {}
        """By worker: what it may have claimed in transactions whose outcome it was not told."""
        self._plain: Plain | None = None
        """What the last claim that nobody waited for went by, if nothing but what was ready mattered."""
        self._locks_queues = False
        """Whether the last claim that was waited for had to lock queues with limits; the next one will."""

    def claim(self, batch: Claiming, now: int | None) -> list[Claim]:
        """Claim and wait, or give what was claimed without its being told."""
        doubts = self._doubts.get(batch.worker)
        if doubts:
            claims = self._writer.write(lambda session: session.hear(find_claims(batch.worker, doubts)))
            self._doubts.pop(batch.worker, None)
            if claims:
                return claims
        found = self._reader.read(lambda session: session.hear(batch.look(now)))
        self._locks_queues = batch.locks_queues
        if not found:
            return []
        batch.tried.clear()
        try:
            return self._writer.write(lambda session: session.hear(batch.claim()))
        except BaseException:
            self._doubt(batch)
            raise

    def start(self, batch: Claiming, now: int | None) -> Talk[list[Claim]] | None:
        """Begin to claim without waiting; None if there is a queue to lock, or something to find out."""
        if self._locks_queues or self._doubts.get(batch.worker):
            return None
        batch.plain = self._plain

        def done() -> None:
            self._plain = batch.plain

        return self._writer.talk(batch.talk(now), done=done, lost=lambda: self._doubt(batch))

    def forget(self, worker_key: int) -> None:
        """A worker has retired: nobody is left to be told."""
        self._doubts.pop(worker_key, None)

    def _doubt(self, batch: Claiming) -> None:
        if batch.tried:
            self._doubts[batch.worker] = batch.tried


__all__ = ["Claims"]
