"""Routes: what a worker can execute."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Route:
    """A workflow of one version, from one queue of one namespace."""

    workflow: str
    version: str = ""
    queue: str = ""
    namespace: str = ""


__all__ = ["Route"]
