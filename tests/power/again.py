"""Look at one power cut again: ``python -m tests.power.again LIFE AT FATE SEED``, as a failing test's note says it.

The disk as the cut left it is printed, and stays there.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
from pathlib import Path
from typing import cast

from tests.power.aftermath import Aftermath
from tests.power.lives import Life
from tests.power.record import Cut, Disk, Fate, lay_out


def look_again(file: Path, cut: Cut, folder: Path) -> Path:
    """Check a cut of a life that was kept in a file.

    Args:
        file: the life.
        cut: the cut.
        folder: where the disk is laid out.

    Returns:
        The disk as the cut left it, untouched.

    Raises:
        AssertionError: what is wrong after it.
    """
    life = cast("Life", pickle.loads(file.read_bytes()))  # noqa: S301 - a test of ours wrote it a moment ago
    disk = folder / "disk"
    lay_out(Disk(life.record).after(cut), disk)
    print(f"{cut}, of {len(life.record.operations)} operations: {disk}")
    Aftermath(life, folder / "cuts").check(cut)
    return disk


if __name__ == "__main__":
    _, place, at, fate, seed = sys.argv
    look_again(Path(place), Cut(int(at), cast("Fate", fate), int(seed)), Path(tempfile.mkdtemp()))
    print("nothing is wrong")
