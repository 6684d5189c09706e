"""Where the store is when nobody says: ``PERDURE_STORE``, else ``.perdure`` beside the nearest project file."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "PERDURE_STORE"
FOLDER = ".perdure"
PROJECT_FILES = ("pyproject.toml", "perdure.toml")


def default_store(start: Path | None = None) -> str:
    """Return the store to use when none is named: a path or URL.

    Args:
        start: the folder to look from; by default the working directory.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return named
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if any((folder / name).is_file() for name in PROJECT_FILES):
            return str(folder / FOLDER) + os.sep
    return str(here / FOLDER) + os.sep
