"""Opening a store on PostgreSQL: addresses, the schema, who may do what, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest

from perdure.errors import NotAStore, StoreError, StoreGone, StoreReadOnly, StoreTooNew, StoreUnreachable, StoreUnsafe
from perdure.store.migrate import Migration
from perdure.store.open import inspect_store, migration_script, open_store, store_name
from perdure.store.postgres.address import parse_address
from perdure.store.postgres.connect import Connector
from perdure.store.postgres.connection import Writer
from perdure.store.postgres.schema import MIGRATIONS, migrate
from perdure.testing.store_suite import Bench
from tests.store.children import child

postgres = pytest.mark.postgres


def base_of(url):
    return url.partition("?")[0]


def schema_of(url):
    return url.rpartition("schema=")[2]


def execute(url, *statements):
    """Do something behind the store's back."""
    with psycopg.connect(base_of(url), autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema_of(url)}")
        for statement in statements:
            connection.execute(statement)


# -- addresses


@pytest.mark.parametrize(
    ("url", "conninfo", "schema", "pooled"),
    [
        ("postgresql://host/db", "postgresql://host/db", "perdure", None),
        ("postgres://host/db", "postgresql://host/db", "perdure", None),
        ("postgresql://u:p@host:1/db?schema=s", "postgresql://u:p@host:1/db", "s", None),
        ("postgresql://a:1,b:2/db?pooled=1", "postgresql://a:1,b:2/db", "perdure", True),
        ("postgresql:///db?host=%2Ftmp%2Fx&pooled=0&schema=s", "postgresql:///db?host=%2Ftmp%2Fx", "s", False),
        ("postgresql://?schema=a%20b", "postgresql://", "a b", None),
        ("postgresql://h/d?options=-c%20jit%3Don", "postgresql://h/d?options=-c%20jit%3Don", "perdure", None),
    ],
)
def test_an_address_is_libpqs_with_two_options_of_ours(url, conninfo, schema, pooled):
    address = parse_address(url)
    assert (address.conninfo, address.schema, address.pooled) == (conninfo, schema, pooled)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:hunter2@host/db",
        "postgresql://user:hunter2@a:1,b:2/db",
        "postgresql://user@host/db?password=hunter2",
        "postgresql://user@host/db?sslpassword=hunter2&schema=s",
        "postgresql://user:hunter2@/db?host=%2Fnowhere",
    ],
)
def test_no_message_shows_a_password(url):
    assert "hunter2" not in store_name(url)
    with pytest.raises(StoreUnreachable) as refused:
        open_store(url.replace("@host", "@127.0.0.1:1").replace("@a:1,b:2", "@127.0.0.1:1,127.0.0.1:2"))
    assert "hunter2" not in str(refused.value) + str(refused.value.fields) + "".join(refused.value.__notes__)
    assert refused.value.advice


@pytest.mark.parametrize("options", ["schema=", "schema=pg_mine", "schema=" + "x" * 64, "pooled=perhaps", "no_such=1"])
def test_what_is_no_address_is_refused_with_advice(options):
    with pytest.raises(StoreUnreachable) as refused:
        open_store(f"postgresql://host/db?{options}")
    assert refused.value.advice


def test_without_its_driver_the_store_says_what_to_install(tmp_path):
    code = """
import sys
sys.modules["psycopg"] = None
from perdure.errors import StoreUnreachable
from perdure.store.open import open_store
try:
    open_store("postgresql://host/db")
except StoreUnreachable as error:
    print(error.advice)
open_store(sys.argv[1]).close()
assert "psycopg_binary" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "store.db"], check=True, capture_output=True, text=True
    )
    assert done.stdout == "pip install 'perdure[postgres]'\n"


# -- the schema


@postgres
def test_a_store_is_made_in_a_schema_of_its_own(postgres_url):
    with open_store(postgres_url, durability="process") as store:
        assert store.created
        assert store.url == postgres_url
    with open_store(postgres_url, create=False, durability="process") as store:
        assert not store.created


@postgres
def test_a_store_that_is_not_there_is_not_made_unasked(postgres_url):
    with pytest.raises(StoreUnreachable, match="no store"):
        open_store(postgres_url, create=False)
    assert inspect_store(postgres_url).version == 0
    with psycopg.connect(base_of(postgres_url)) as connection:
        found = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", [schema_of(postgres_url)]).fetchall()
    assert found == []


@postgres
def test_a_name_is_only_ever_a_name(postgres_url):
    strange = schema_of(postgres_url) + '"; DROP TABLE x; --'
    url = base_of(postgres_url) + "?schema=" + strange.replace('"', "%22").replace(" ", "%20").replace(";", "%3B")
    try:
        with Bench(lambda: open_store(url, durability="process")) as bench:
            held = bench.hold()
            held.commit(held.steps())
            assert bench.store.changed()
    finally:
        with psycopg.connect(base_of(postgres_url), autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("DROP SCHEMA {} CASCADE").format(psycopg.sql.Identifier(strange)))


@postgres
def test_an_empty_schema_becomes_a_store(postgres_url):
    execute(postgres_url.replace("schema=", "schema="), f"CREATE SCHEMA {schema_of(postgres_url)}")
    with open_store(postgres_url, durability="process") as store:
        assert store.created


@postgres
@pytest.mark.parametrize(
    "theirs", ["CREATE TABLE accounts (number int)", "CREATE TABLE store_info (name text, value text)"]
)
def test_the_schema_of_another_program_is_left_alone(postgres_url, theirs):
    execute(postgres_url, f"CREATE SCHEMA {schema_of(postgres_url)}", theirs)
    with pytest.raises(NotAStore) as refused:
        open_store(postgres_url)
    assert refused.value.advice
    with pytest.raises(NotAStore):
        inspect_store(postgres_url)


OPENER = """
from perdure.store.open import open_store
say("ready"); hear()
with open_store(sys.argv[1], durability="process") as store:
    say(store.created)
"""


@postgres
def test_many_that_start_at_once_make_one_store(postgres_url):
    children = []
    try:
        for _ in range(6):
            started = child(OPENER, postgres_url)
            children.append((started, started.__enter__()))
        for _, process in children:
            assert process.hear() == ["ready"]
        for _, process in children:
            process.say("go")
        made = [process.hear() for _, process in children]
    finally:
        for started, _ in children:
            started.__exit__(None, None, None)
    assert sorted(made) == [["False"]] * 5 + [["True"]]


def connected(url):
    connector = Connector(parse_address(url), "process")
    return Writer(connector, connector.open())


SECOND = Migration(2, "more", "CREATE TABLE {schema}.more (number int);")
LESS = Migration(
    3, "less", "DROP TABLE {schema}.more; UPDATE {schema}.store_info SET value = '3' WHERE name = 'least_version';"
)


@postgres
def test_migrations_go_forward_and_old_code_goes_on_until_something_is_taken_away(postgres_url):
    with Bench(lambda: open_store(postgres_url, durability="process")) as bench:
        held = bench.hold()
        writer = connected(postgres_url)
        schema = schema_of(postgres_url)
        try:
            assert migrate(writer, schema, create=False, migrations=(*MIGRATIONS, SECOND)) is False
            assert held.commit(held.steps()) == [1]
            with open_store(postgres_url, durability="process") as old:
                assert old.get_run("one") is not None
            assert inspect_store(postgres_url).version == 2
            assert inspect_store(postgres_url).problems == ()
            assert migrate(writer, schema, create=False, migrations=(*MIGRATIONS, SECOND)) is False
            migrate(writer, schema, create=False, migrations=(*MIGRATIONS, SECOND, LESS))
        finally:
            writer.close()
        with pytest.raises(StoreTooNew) as refused:
            open_store(postgres_url)
        assert (refused.value.found, refused.value.known) == (3, len(MIGRATIONS))
        assert any("upgrade" in problem for problem in inspect_store(postgres_url).problems)


@postgres
def test_a_migration_that_fails_leaves_nothing_behind(postgres_url):
    bad = Migration(2, "bad", "CREATE TABLE {schema}.more (number int); SELECT no_such_function();")
    open_store(postgres_url, durability="process").close()
    writer = connected(postgres_url)
    try:
        with pytest.raises(StoreError):
            migrate(writer, schema_of(postgres_url), create=False, migrations=(*MIGRATIONS, bad))
    finally:
        writer.close()
    assert inspect_store(postgres_url).version == 1
    execute(postgres_url, "CREATE TABLE more (number int)")


@postgres
def test_a_store_that_wants_newer_writers_is_refused(postgres_url):
    open_store(postgres_url, durability="process").close()
    execute(postgres_url, "UPDATE store_info SET value = '2' WHERE name = 'least_format'")
    with pytest.raises(StoreTooNew, match="format"):
        open_store(postgres_url)


# -- who may do what


@postgres
def test_an_administrator_can_make_the_store_for_a_role_that_may_not(servers):
    server = servers.server()
    with server.connect() as admin:
        admin.execute("CREATE ROLE small LOGIN")
        url = server.url("perdure").replace("//app@", "//small@")
        with pytest.raises(StoreReadOnly) as refused:
            open_store(url)
        assert "perdure db sql" in refused.value.advice
        admin.execute(migration_script(url))
        with pytest.raises(StoreReadOnly):
            open_store(url)
        admin.execute("GRANT USAGE ON SCHEMA perdure TO small")
        admin.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA perdure TO small")
        with Bench(lambda: open_store(url)) as bench:
            assert not bench.store.created
            held = bench.hold()
            assert held.commit(held.steps(), held.end()) == [1, 1]
        assert inspect_store(url).problems == ()
        admin.execute("REVOKE UPDATE ON perdure.runs FROM small")
        assert any("UPDATE" in problem for problem in inspect_store(url).problems)


@postgres
def test_a_database_that_takes_no_writes_is_refused(servers):
    primary = servers.server()
    open_store(primary.url("perdure")).close()
    standby = servers.standby(primary)
    with pytest.raises(StoreReadOnly) as refused:
        open_store(standby.url("perdure"))
    assert refused.value.advice
    with open_store(standby.url("perdure", primary)) as store:
        assert store.list_workers() == []


@postgres
def test_a_server_that_does_not_sync_keeps_no_promise(servers):
    server = servers.server(fsync="off")
    with pytest.raises(StoreUnsafe, match="fsync"):
        open_store(server.url("perdure"))
    open_store(server.url("perdure"), durability="process").close()
    assert any("fsync" in problem for problem in inspect_store(server.url("perdure")).problems)


@postgres
def test_commits_wait_for_the_disk_whatever_the_server_is_set_to(servers):
    server = servers.server(synchronous_commit="off")
    bouncer = servers.bouncer(server)
    for url, pooled in ((server.url("perdure"), False), (bouncer.url("perdure"), True)):
        with open_store(url) as store:
            in_force = store._writer.write(shown)
            assert in_force == "on"
            assert store._writer._pooled is pooled
        with open_store(url, durability="process") as store:
            in_force = store._writer.write(shown)
            assert in_force == "off"


def shown(session):
    return session.connection.execute("SHOW synchronous_commit").fetchone()[0]


@postgres
def test_the_store_was_removed_while_it_was_open(postgres_url):
    with open_store(postgres_url, durability="process") as store:
        execute(postgres_url, f"DROP SCHEMA {schema_of(postgres_url)} CASCADE")
        with pytest.raises(StoreGone):
            store.get_run("one")


@postgres
def test_what_was_prepared_before_a_migration_is_prepared_again(postgres_url):
    with Bench(lambda: open_store(postgres_url, durability="process")) as bench:
        held = bench.hold()
        row = bench.row(held.key)
        execute(
            postgres_url,
            "DROP VIEW run_rows",
            """CREATE VIEW run_rows AS
               SELECT r.run_key, r.namespace, r.run_id, r.uid, t.workflow, t.version, t.queue, r.status, r.epoch,
                      r.worker_key, r.seq, r.hash, r.inbox, r.crashes, r.wake_at, r.deadline_at, r.priority,
                      r.partition, r.parent_key, r.idem, r.reason, r.meta, r.format, r.created_at, r.ended_at, r.undo,
                      r.route, r.paused AS one_more
               FROM runs r JOIN routes t ON t.route = r.route""",
        )
        assert bench.row(held.key) == row
        assert held.commit(held.steps()) == [1]
