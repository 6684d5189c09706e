"""``python -m perdure.demo STORE HEARTBEATS``: the call that the demonstration makes twice, once to resume."""

from __future__ import annotations

import sys
from pathlib import Path

import perdure
from perdure.demo.review import RUN_ID, Candidate, Review, Tools, review

CANDIDATES = [Candidate(id="fast-a", score=1, takes=0.2), Candidate(id="slow-b", score=2, takes=2.0)]

if __name__ == "__main__":
    store, heartbeats = sys.argv[1:]
    print(perdure.run(review, Review(candidates=CANDIDATES), run_id=RUN_ID, store=store, tools=Tools(Path(heartbeats))))  # noqa: T201
