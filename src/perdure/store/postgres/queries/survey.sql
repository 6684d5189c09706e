-- name: count_of_status
-- How many runs have a status, counted up to a bound.
SELECT count(*) FROM (
  SELECT FROM {schema}.routes t CROSS JOIN LATERAL (
    SELECT FROM {schema}.runs r WHERE r.route = t.route AND r.status = $1 LIMIT $2) r LIMIT $2) r;

-- name: list_routes_known
-- Routes, as many as are looked at.
SELECT route, namespace, queue, workflow, version FROM {schema}.routes ORDER BY route LIMIT $1;

-- name: count_backlog
-- How many runs of a route are claimable, counted up to a bound.
SELECT count(*) FROM (SELECT FROM {schema}.runs
                      WHERE route = $1 AND rank IS NOT NULL AND refused IS NULL LIMIT $2) r;

-- name: first_ready
-- The run of a route that is to be claimed first.
SELECT run_key FROM {schema}.runs WHERE route = $1 AND rank IS NOT NULL AND refused IS NULL
ORDER BY rank, run_key LIMIT 1;

-- name: first_due
-- The run of a route that has been due for longest and is not yet claimable.
SELECT run_id, wake_at FROM {schema}.runs WHERE route = $1 AND rank IS NULL AND wake_at <= $2 ORDER BY wake_at LIMIT 1;

-- name: count_due
-- How many there are, counted up to a bound.
SELECT count(*) FROM (SELECT FROM {schema}.runs WHERE route = $1 AND rank IS NULL AND wake_at <= $2 LIMIT $3) r;

-- name: latest_blocked
-- The latest blocked runs.
SELECT r.run_key FROM {schema}.routes t CROSS JOIN LATERAL (
  SELECT o.run_key FROM {schema}.runs o WHERE o.route = t.route AND o.status = 7 ORDER BY o.created_at DESC LIMIT $1) r
ORDER BY r.run_key DESC LIMIT $1;

-- name: suspects_of_route
-- Claimable runs of a route whose workers have died twice or more in a row.
SELECT run_id, crashes FROM {schema}.runs WHERE route = $1 AND rank IS NOT NULL AND crashes >= 2
ORDER BY rank, run_key LIMIT $2;

-- name: longest_of_status
-- Of so many runs of a status, the one with the longest log.
SELECT run_id, seq FROM (
  SELECT o.run_id, o.seq FROM {schema}.routes t CROSS JOIN LATERAL (
    SELECT i.run_id, i.seq FROM {schema}.runs i WHERE i.route = t.route AND i.status = $1 LIMIT $2) o LIMIT $2) r
ORDER BY seq DESC LIMIT 1;

-- name: most_unread
-- Of so much news, the run that has the most of it unread: its id, how much, and since when.
SELECT r.run_id, n.many, n.since FROM (
  SELECT i.run_key, count(*) AS many, min(i.sent_at) AS since
  FROM (SELECT run_key, sent_at FROM {schema}.inbox WHERE kind > 0 ORDER BY inbox_key DESC LIMIT $1) i
  GROUP BY i.run_key ORDER BY many DESC LIMIT 1) n JOIN {schema}.runs r ON r.run_key = n.run_key;

-- name: unused_artifacts
-- How many artifacts nothing refers to, and how large they are together.
SELECT count(*), coalesce(sum(a.size), 0)::bigint FROM {schema}.artifacts a
WHERE NOT EXISTS (SELECT FROM {schema}.artifact_uses u WHERE u.hash = a.hash);

-- name: held_of_workers
-- How many runs each worker holds.
SELECT worker_key, count(*) FROM {schema}.runs WHERE worker_key IS NOT NULL GROUP BY worker_key;

-- name: list_indexes
-- The names of the indexes of the schema $1 that can be used.
SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND i.indisvalid;

-- name: settings
-- Settings that matter, as sessions of this role find them.
SELECT name::text, reset_val::text || coalesce(unit, '') FROM pg_settings WHERE name = ANY (ARRAY[
  'server_version', 'fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'wal_level',
  'max_connections', 'idle_session_timeout', 'idle_in_transaction_session_timeout', 'statement_timeout',
  'default_transaction_isolation', 'autovacuum', 'track_activities']);

-- name: synchronous_now
-- What commits of this session have.
SELECT current_setting('synchronous_commit');

-- name: sessions
-- Sessions of programs in use, how many are allowed, and standbys that commits wait for.
SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
       current_setting('max_connections')::bigint,
       (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
       (SELECT age(datfrozenxid)::bigint FROM pg_database WHERE datname = current_database());

-- name: tables
-- Tables of the schema $1: live and dead rows, bytes with indexes as of the last vacuum (asking for today's would wait for
-- locks), when last vacuumed.
SELECT s.relname::text, s.n_live_tup, s.n_dead_tup,
       (SELECT coalesce(sum(c.relpages), 0) * current_setting('block_size')::bigint FROM pg_class c
        WHERE c.oid = s.relid OR c.oid IN (SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = s.relid))::bigint,
       (extract(epoch FROM greatest(s.last_autovacuum, s.last_vacuum)) * 1000000)::bigint
FROM pg_stat_user_tables s WHERE s.schemaname = $1 ORDER BY s.relname;

-- name: examine_session
-- An examination waits for nobody for long.
SET lock_timeout = '1s';

-- name: long_transactions
-- Transactions of this database, prepared ones too, that have gone on for longer than $1 µs.
SELECT pid::bigint, application_name, coalesce(state, ''),
       (extract(epoch FROM clock_timestamp() - xact_start) * 1000000)::bigint
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
  AND (extract(epoch FROM clock_timestamp() - xact_start) * 1000000)::bigint > $1
UNION ALL
SELECT 0, gid, 'prepared', (extract(epoch FROM clock_timestamp() - prepared) * 1000000)::bigint
FROM pg_prepared_xacts
WHERE database = current_database() AND (extract(epoch FROM clock_timestamp() - prepared) * 1000000)::bigint > $1;

-- name: waiting_sessions
-- Sessions of this database that wait for a lock, for longer than $1 µs.
SELECT pid::bigint, application_name, coalesce(wait_event, ''),
       (extract(epoch FROM clock_timestamp() - state_change) * 1000000)::bigint
FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
  AND (extract(epoch FROM clock_timestamp() - state_change) * 1000000)::bigint > $1;
