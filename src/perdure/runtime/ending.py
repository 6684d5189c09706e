"""The end of a run, as it is about to be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.model.payloads import PLAIN

if TYPE_CHECKING:
    from perdure.model.records import Artifact, Kind, Status, Successor


class Ending(NamedTuple):
    """A terminal (or blocking) event, and what whoever waits for the run is told."""

    kind: Kind
    status: Status
    payload: bytes
    reason: str | None = None
    codec: int = PLAIN
    artifact: Artifact | None = None
    value: Any = None
    failure: bytes | None = None
    error: BaseException | None = None
    """What a failed run failed with."""
    successor: Successor | None = None
    """The run that goes on in its place."""


__all__ = ["Ending"]
