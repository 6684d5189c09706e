"""Which store and which namespace are meant when nobody says.

The store: ``PERDURE_STORE``, else ``.perdure`` beside the nearest project file.
The namespace: ``PERDURE_NAMESPACE``, else the one without a name.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "PERDURE_STORE"
NAMESPACE = "PERDURE_NAMESPACE"
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


def default_namespace() -> str:
    """Return the namespace to use when none is named."""
    return os.environ.get(NAMESPACE, "")
