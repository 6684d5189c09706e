-- name: server_facts
-- What must be known of a server before it is trusted, and which of its processes serves us.
SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), current_setting('fsync'),
       pg_backend_pid(), current_database();

-- name: use_session
-- How a session of ours works: by index, also by plans made while tables were empty; and nobody waits for ever.
SET enable_seqscan = off;
SET jit = off;
SET plan_cache_mode = force_generic_plan;
SET search_path = pg_catalog;
SET default_transaction_isolation = 'read committed';
SET lock_timeout = '10s';
SET statement_timeout = '60s';
SET idle_in_transaction_session_timeout = '10s';

-- name: synchronous_disk
-- Every commit is on disk (and on synchronous standbys) before it is answered; a server that does more is left to it.
SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                                        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false);

-- name: synchronous_process
-- Commits survive the server's process; a power cut may lose the last of them.
SELECT set_config('synchronous_commit', 'off', false);

-- name: begin
-- Begin a transaction.
BEGIN;

-- name: begin_pooled_disk
-- Begin a transaction in a session that is lent for it: what a session of ours is set to, for this once.
BEGIN;
SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                                        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true);
SET LOCAL enable_seqscan = off;
SET LOCAL jit = off;
SET LOCAL lock_timeout = '10s';
SET LOCAL statement_timeout = '60s';
SET LOCAL idle_in_transaction_session_timeout = '10s';

-- name: begin_pooled_process
-- The same where commits need not be on disk.
BEGIN;
SET LOCAL synchronous_commit = off;
SET LOCAL enable_seqscan = off;
SET LOCAL jit = off;
SET LOCAL lock_timeout = '10s';
SET LOCAL statement_timeout = '60s';
SET LOCAL idle_in_transaction_session_timeout = '10s';

-- name: commit
-- End a transaction.
COMMIT;

-- name: rollback
-- Undo a transaction.
ROLLBACK;

-- name: savepoint
-- Begin what can be undone alone.
SAVEPOINT item;

-- name: release_savepoint
-- Keep it.
RELEASE SAVEPOINT item;

-- name: rollback_to_savepoint
-- Undo it.
ROLLBACK TO SAVEPOINT item;

-- name: clock
-- The server's clock: microseconds UTC.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: snapshot
-- A text that changes when anyone has committed anything to any database of the server.
SELECT pg_current_snapshot()::text;

-- name: is_read_only
-- Whether this session takes no writes: its server has become a standby, or is about to.
SELECT current_setting('transaction_read_only')::boolean;

-- name: listen
-- Hear the hints of others: the schema's name is the channel's.
LISTEN {schema};

-- name: hint
-- Say on a channel that something was committed.
SELECT pg_notify($1, '');
