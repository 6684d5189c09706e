"""A process that holds a run and does nothing about it: ``python -m tests.diagnosis.dying STORE``."""

from __future__ import annotations

import signal
import sys

from perdure.store.open import open_store
from perdure.testing.store_suite import Bench

if __name__ == "__main__":
    bench = Bench(lambda: open_store(sys.argv[1], durability="process"))
    bench.hold()
    sys.stdout.write("holds\n")
    sys.stdout.flush()
    signal.pause()
