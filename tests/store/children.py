"""Child processes that a test drives line by line: what they print is what they have done."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager

from perdure.store.open import is_postgres
from tests.servers.reaper import eventually

PREAMBLE = """
import os, sys
from perdure.store.open import is_postgres, open_store
from perdure.testing.store_suite import Bench

def say(*words):
    print(*words, flush=True)

def hear():
    return sys.stdin.readline().strip()
"""


class Child:
    def __init__(self, code, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + code, *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def hear(self):
        line = self.process.stdout.readline()
        assert line, f"the child ended with {self.process.wait()}"
        return line.split()

    def say(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def finish(self):
        rest = self.process.communicate(timeout=30)[0]
        assert self.process.returncode == 0
        return rest.split()

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


@contextmanager
def child(code, *arguments):
    started = Child(code, *arguments)
    try:
        yield started
    finally:
        started.close()


def run(code, *arguments):
    """Run a child to its end; what it printed, in words."""
    with child(code, *arguments) as started:
        return started.finish()


def found_dead(store, observer, count=1, *, grace=1_000_000):
    """The workers that an observer takes for dead, as soon as it does.

    SQLite's store sees at the first look that the kernel has let go of a lock. PostgreSQL's looks on for a moment,
    since a session may end while its worker lives.
    """
    found = store.dead_workers(observer, grace=grace)
    if is_postgres(store.url):
        assert eventually(lambda: len(store.dead_workers(observer, grace=grace)) >= count, 20)
        found = store.dead_workers(observer, grace=grace)
    return found


def integrity(path):
    """What SQLite finds wrong with a file; ``["ok"]`` if nothing."""
    return run(
        "import apsw; say(*[row[0] for row in apsw.Connection(sys.argv[1]).execute('PRAGMA integrity_check')])", path
    )
