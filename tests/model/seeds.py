"""Code in processes that order their sets otherwise."""

from __future__ import annotations

import subprocess
import sys


def said_under_hash_seeds(code):
    """What the code prints, in two processes whose texts hash differently."""
    return {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
