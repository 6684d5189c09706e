"""The servers that other tests rely on do what those expect of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest

from tests.house import tree
from tests.servers import binaries, reaper
from tests.servers.fixtures import with_schema
from tests.servers.ground import Ground

pytestmark = pytest.mark.postgres

TABLE = "CREATE TABLE kept (number int PRIMARY KEY)"
INSERT = "INSERT INTO kept VALUES (%s)"


def numbers(connection):
    return [row[0] for row in connection.execute("SELECT number FROM kept ORDER BY number")]


class Writer(threading.Thread):
    """Inserts 0, 1, 2, … until its server fails it; ``acknowledged`` are those it was told are kept."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.acknowledged, self.written = server, [], threading.Condition()

    def run(self):
        with self.server.connect() as connection:
            for number in range(1_000_000):
                try:
                    connection.execute(INSERT, [number])
                except psycopg.OperationalError:
                    return
                with self.written:
                    self.acknowledged.append(number)
                    self.written.notify_all()

    def until(self, count):
        with self.written:
            assert self.written.wait_for(lambda: len(self.acknowledged) >= count, 20)


def test_it_is_of_the_version_that_was_asked_for(servers):
    version = binaries.wanted() or 18
    with servers.server().connect() as connection:
        assert connection.info.server_version // 10_000 == version
        assert connection.execute("SHOW fsync").fetchone() == ("on",)


def test_it_survives_being_killed_with_all_it_acknowledged(servers):
    server = servers.server()
    with server.connect() as connection:
        connection.execute(TABLE)
    for _ in range(2):
        with server.connect() as connection:
            connection.execute("TRUNCATE kept")
        writer = Writer(server)
        writer.start()
        writer.until(50)
        pids = server.pids
        assert len(pids) > 4
        server.kill_hard()
        assert not any(reaper.alive(pid) for pid in pids)
        assert server.pid is None
        server.start()
        writer.join(20)
        with server.connect() as connection:
            assert set(writer.acknowledged) <= set(numbers(connection))


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_it_restarts_where_it_was(servers, mode):
    server = servers.server()
    with server.connect() as connection:
        connection.execute(TABLE)
        began = connection.execute("SELECT pg_postmaster_start_time()").fetchone()
        server.restart(mode)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT")
    with server.connect() as connection:
        assert connection.execute("SELECT pg_postmaster_start_time()").fetchone() > began
        assert numbers(connection) == []


def test_sessions_are_ended_and_new_ones_may_begin(servers):
    server = servers.server()
    with psycopg.connect(server.url()) as one, psycopg.connect(server.url()) as two:
        one.execute("SELECT")
        assert server.terminate_backends() == 2
        for connection in (one, two):
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT")
    with psycopg.connect(server.url()) as connection:
        connection.execute("SELECT")


def test_a_synchronous_standby_has_all_that_was_acknowledged_when_it_is_promoted(servers):
    primary = servers.server()
    with primary.connect() as connection:
        connection.execute(TABLE)
    standby = servers.standby(primary)
    with standby.connect() as connection, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute(INSERT, [1])
    writer = Writer(primary)
    writer.start()
    writer.until(50)
    primary.kill_hard()
    standby.promote()
    writer.join(20)
    with psycopg.connect(primary.url(None, standby, target_session_attrs="read-write")) as connection:
        assert connection.info.port == standby.port
    with standby.connect() as connection:
        assert set(writer.acknowledged) <= set(numbers(connection))
        connection.execute(INSERT, [-1])


def test_the_pooler_lends_sessions_for_a_transaction(servers):
    bouncer = servers.bouncer(servers.server(), pool=1)
    with bouncer.connect() as one, bouncer.connect() as two:
        backends = {connection.execute("SELECT pg_backend_pid()").fetchone() for connection in (one, two, one)}
    assert len(backends) == 1
    bouncer.stop()
    with pytest.raises(psycopg.OperationalError):
        bouncer.connect()


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_a_schema_of_its_own(postgres_url, turn):
    schema = postgres_url.rpartition("schema=")[2]
    with psycopg.connect(postgres_url.partition("?")[0], autocommit=True) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'test%'").fetchall()
        assert (schema,) not in found
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"CREATE TABLE {schema}.ours ()")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE ROLE mighty")


def test_a_schema_replaces_that_of_a_given_address():
    assert with_schema("postgresql://a:b@h:1/d?schema=old&sslmode=disable", "new") == (
        "postgresql://a:b@h:1/d?sslmode=disable&schema=new"
    )


USER = """
import sys
from pathlib import Path
from tests.servers.ground import Ground
ground = Ground(Path(sys.argv[1]))
print(ground.folder, ground.shared().port, flush=True)
sys.stdin.read()
"""


def user(meeting):
    """A process that shares a server with others until it is told to end."""
    return subprocess.Popen(
        [sys.executable, "-c", USER, meeting], cwd=tree.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_processes_share_a_server_that_ends_with_the_last_of_them_however_it_ends(tmp_path):
    with user(tmp_path) as one, user(tmp_path) as two:
        folder, port = words = one.stdout.readline().split()
        assert two.stdout.readline().split() == words
        ground = Ground(tmp_path)
        server = ground.shared()
        assert [str(ground.folder), str(server.port)] == [folder, port]
        pids = server.pids
        ground.leave()
        two.stdin.close()
        assert two.wait(20) == 0
        assert all(reaper.alive(pid) for pid in pids[:1])
        os.kill(one.pid, signal.SIGKILL)
    assert reaper.gone(*pids, within=20)
    assert reaper.eventually(lambda: not Path(folder).exists(), within=20)
