"""The world of a storm: its workers and clients, the disk or the server under them, and all that happens to them."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from perdure import Engine
from perdure.clock import SystemClock
from perdure.errors import StoreError
from perdure.model.records import Status
from perdure.store.open import open_store
from perdure.store.protocol import PAGE, Filter
from tests.crash.apps import Tools
from tests.crash.chaos import STOPPED
from tests.crash.ledger import CLOCK, Ledger
from tests.crash.procs import FAST, Announced, Crew, log_to
from tests.servers.server import Server
from tests.storm.clients import ask_everything
from tests.storm.plan import Place, Plan
from tests.storm.workflows import WORKFLOWS, heavily, narrow

PACE = 0.12
"""Seconds within which the next thing happens, on a machine that is not busy."""
ROOM = "192m"
LOADS = 4
"""Runs with much to write that are started when the disk is about to be full."""
ENDING = 20.0
"""Seconds in which a worker that is asked to stop does."""


class Limited(Announced):
    """An engine that says that it is up, and has to do with what it is left from then on."""

    place: Place

    async def start(self) -> None:
        await super().start()
        place = self.place
        if place.descriptors is not None:
            most = highest() + 1 + place.descriptors
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        if place.memory is not None:
            most = taken() + place.memory * (1 << 20)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))


def highest() -> int:
    """The highest descriptor that this process has open."""
    return max(int(path.name) for path in Path("/proc/self/fd").iterdir())


def taken() -> int:
    """Bytes of addresses that this process has taken."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def labour(store: str, ledger: Ledger, place: Place) -> None:
    """Be a worker at a place until SIGTERM; where there is no store to be had, try again, as under a supervisor."""
    log_to(ledger)
    ledger.write("place", key=str(int(place.astray * 1_000_000)))
    if place.astray:
        right = SystemClock.now
        SystemClock.now = lambda clock: right(clock) + int(place.astray * 1_000_000)
    while True:
        engine = Limited(
            store,
            workflows=WORKFLOWS,
            queues=[narrow],
            tools=Tools(ledger),
            concurrency=30,
            threads=8,
            crash_cap=1_000_000,
            **FAST,
        )
        engine.ledger, engine.place = ledger, place
        try:
            left = asyncio.run(engine.serve(drain=ENDING / 2, grace=ENDING / 4))
        except StoreError as error:
            ledger.write("gave up", key=type(error).__name__)
            time.sleep(0.05)
        except (OSError, MemoryError) as error:
            if not place.is_poor:
                raise
            ledger.write("starved", key=type(error).__name__)
            os._exit(1)
        else:
            ledger.write("left", key=",".join(left))
            return


@dataclass
class Post:
    """A place, and who is there."""

    place: Place
    process: BaseProcess
    frozen: threading.Timer | None = None


class World:
    """Everything that a storm happens to."""

    def __init__(self, plan: Plan, crew: Crew, disk: Path | None = None, server: Server | None = None) -> None:
        self.plan, self.crew, self.disk, self.server = plan, crew, disk, server
        self.chance = random.Random(f"world {plan.seed}")
        self.posts = [Post(place, self._worker(place)) for place in plan.places]
        self.clients = {name: self._client(name) for name in plan.asks}
        self.killed: list[BaseProcess] = []
        self.poor: set[int | None] = set()
        self.left_by_themselves: list[int | None] = []
        self.timers: list[threading.Timer] = []
        self.did: Counter[str] = Counter()
        self._seen = 0
        self._up: set[int] = set()
        self._bodies: Counter[int] = Counter()

    def _worker(self, place: Place) -> BaseProcess:
        return self.crew.start(labour, self.crew.store, self.crew.ledger, place)

    def _client(self, name: str) -> BaseProcess:
        return self.crew.start(ask_everything, self.crew.store, self.crew.ledger, self.plan, name)

    # -- the storm

    def rage(self) -> None:
        """Do all that is planned."""
        until = CLOCK.monotonic() + self.plan.size.seconds[0]
        for act in self.plan.acts:
            assert CLOCK.monotonic() < until, f"the storm takes too long: {self.did}"
            time.sleep(self.chance.random() * PACE)
            getattr(self, act)()
            self.crew.ledger.write(act)
            self.did[act] += 1
        for timer in self.timers:
            timer.join()

    def kill(self) -> None:
        """Kill a worker, most times one that has something to do; another takes its place."""
        post = self.chance.choice(self.posts)
        mood = self.chance.random()
        if mood < 0.8:
            self._until_up([post])
        if mood < 0.6 and (busy := self._busy()):
            post = self.chance.choice(busy)
        self._replace(post, post.place)

    def _busy(self) -> list[Post]:
        """Where bodies have begun that have not ended."""
        self._look()
        return [post for post in self.posts if post.process.is_alive() and self._bodies[post.process.pid or 0] > 0]

    def _look(self) -> None:
        """Take in what was said meanwhile."""
        news = self.crew.ledger.since(self._seen)
        self._seen += len(news)
        for entry in news:
            self._bodies[entry.pid] += (entry.what == "begin") - (entry.what == "end")
            if entry.what == "up":
                self._up.add(entry.pid)

    def _replace(self, post: Post, place: Place) -> None:
        process = post.process
        if process.is_alive():
            self.crew.ledger.write("to be killed", key=str(process.pid))
            process.kill()
            self.killed.append(process)
            if post.place.is_poor:
                self.poor.add(process.pid)
        else:
            self.left_by_themselves.append(process.exitcode)
            assert post.place.is_poor, f"a worker ended that was not killed: {process.exitcode}"
        post.place, post.process, post.frozen = place, self._worker(place), None

    def kill_client(self) -> None:
        """Kill a client; another goes on."""
        name = self.chance.choice([*self.clients])
        process = self.clients[name]
        if process.is_alive():
            process.kill()
            self.killed.append(process)
            process.join()
            self.clients[name] = self._client(name)

    def stop(self) -> None:
        """Stop a worker until it has lost its lease."""
        post = self.chance.choice([one for one in self.posts if one.frozen is None or not one.frozen.is_alive()])
        self._until_up([post])
        pid = post.process.pid
        assert pid is not None
        self.crew.ledger.write("stopped", key=str(pid))
        with suppress(ProcessLookupError):  # it ended meanwhile, for want of memory
            os.kill(pid, signal.SIGSTOP)
        post.frozen = threading.Timer(STOPPED, self._go_on, [pid])
        post.frozen.start()
        self.timers.append(post.frozen)

    def _go_on(self, pid: int) -> None:
        self.crew.ledger.write("continued", key=str(pid))
        with suppress(ProcessLookupError):  # killed while it was stopped
            os.kill(pid, signal.SIGCONT)

    def fill_disk(self) -> None:
        """Leave no room on the disk for a while."""
        if self.disk is None:
            return
        asyncio.run(self._load())
        ballast = self.disk / "ballast"
        with ballast.open("wb", buffering=0) as file:
            block = 65_536
            while block:
                try:
                    file.write(bytes(block))
                except OSError:
                    block //= 2
        time.sleep(0.3 + 0.7 * self.chance.random())
        ballast.unlink()

    async def _load(self) -> None:
        async with Engine(self.crew.store).client() as client:
            await client.enqueue_many(heavily, [self.chance.randrange(1000) for _ in range(LOADS)])

    def end_sessions(self) -> None:
        """Have the server end all its clients' sessions."""
        assert self.server is not None
        self.server.terminate_backends()

    def crash(self) -> None:
        """Kill the server with all its processes, and start it again."""
        assert self.server is not None
        self.server.kill_hard()
        self.server.start()

    def _until_up(self, posts: list[Post]) -> None:
        """Wait until these work, are stopped or have ended."""
        until = CLOCK.monotonic() + 5.0
        while CLOCK.monotonic() < until:
            self._look()
            if all(post.process.pid in self._up or not post.process.is_alive() or post.frozen for post in posts):
                return
            time.sleep(0.01)

    # -- the calm

    def calm_down(self) -> list[str]:
        """Let all workers have what they need, and wait until nothing more happens; returns what does not end."""
        ledger, until = self.crew.ledger, CLOCK.monotonic() + self.plan.size.seconds[1]
        for post in self.posts:
            if post.place.is_poor:
                self._replace(post, Place())
        while CLOCK.monotonic() < until:
            content = {entry.key for entry in ledger.entries("content")}
            if content == set(self.clients) and self._all_rest():
                break
            time.sleep(0.05)
        else:
            return ["the calm takes too long", *self._unanswered(), *self._restless()]
        self._until_up(self.posts)  # else the signal is nobody's yet
        for post in self.posts:
            post.process.terminate()
        trouble = []
        for post in self.posts:
            post.process.join(ENDING)
            if post.process.exitcode != 0:
                trouble.append(f"a worker that was asked to stop ended with {post.process.exitcode}")
        codes = set()
        for process in self.killed:
            process.join(ENDING)
            if process.pid not in self.poor:  # one that has to do with little may have been quicker to end
                codes.add(process.exitcode)
        if not codes <= {-signal.SIGKILL}:
            trouble.append(f"who was killed ended with {codes}")
        return trouble

    def _unanswered(self) -> list[str]:
        """What clients still ask for; where they are goes to stderr."""
        entries = self.crew.ledger.entries()
        answered = {(entry.run, entry.key, entry.idem) for entry in entries if entry.what == "answered"}
        asked = {(entry.run, entry.key, entry.idem) for entry in entries if entry.what == "asked"}
        for process in self.clients.values():
            if process.is_alive():
                os.kill(process.pid or 0, signal.SIGUSR1)
                process.join(0.2)
        return [f"{who} asks {run} {what}" for run, what, who in sorted(asked - answered)]

    def _all_rest(self) -> bool:
        return not self._restless()

    def _restless(self) -> list[str]:
        moving = (Status.PENDING, Status.RUNNING, Status.SLEEPING, Status.WAITING, Status.RETRYING, Status.PAUSED)
        with open_store(self.crew.store) as store:
            rows = store.list_runs(Filter(status=moving, limit=PAGE))
        return [f"{row.run_id} is {row.status.word}" for row in rows if not row.run_id.startswith("silent")]


@contextmanager
def small_disk(at: Path, told: Callable[[str], object]) -> Iterator[Path | None]:
    """A small file system of its own; None, and a word of it, where this user may make none."""
    at.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", at]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except OSError:
        done = None
    if done is None or done.returncode != 0:
        told("no file system can be mounted here: the disk is never full")
        yield None
        return
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", at], check=True)
