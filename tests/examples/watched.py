"""Run a script as ``python SCRIPT …`` would, and have its runs announce on a pipe what they reach.

``python -m tests.examples.watched FD SCRIPT ARGUMENTS…`` writes a line per point; one about a body has its step's key.
"""

from __future__ import annotations

import functools
import os
import runpy
import sys

import perdure
from perdure.runtime import points


def announce(pipe: int, point: str) -> None:
    key = perdure.step_context().key if point in {points.BODY, points.BODY_ENDED} else ""
    os.write(pipe, f"{point} {key}\n".encode())


if __name__ == "__main__":
    _, pipe, *sys.argv = sys.argv
    perdure.run = functools.partial(perdure.run, reached=functools.partial(announce, int(pipe)))
    runpy.run_path(sys.argv[0], run_name="__main__")
