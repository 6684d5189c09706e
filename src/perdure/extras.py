"""Packages that come with an extra: where one is missing, the error says how to get it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def extra(name: str) -> Generator[None]:
    """Where what belongs to an extra is imported.

    Raises:
        ModuleNotFoundError: a package is missing; a note says with which command it is installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != "perdure":
            error.add_note(f"pip install 'perdure[{name}]'")
        raise


__all__ = ["extra"]
