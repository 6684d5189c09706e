-- name: register_worker
-- Insert a worker, its lease from now on, and what it serves ($13); the same again is no second one.
WITH made AS (
  INSERT INTO {schema}.workers (worker_key, name, host, pid, pid_started, boot, build, sidecar, lock_key, started_at,
                                lease_until, beat)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $11, $12)
  ON CONFLICT (worker_key) DO UPDATE SET lease_until = excluded.lease_until
  RETURNING worker_key
)
INSERT INTO {schema}.worker_routes (worker_key, route)
SELECT m.worker_key, k.route FROM made m CROSS JOIN unnest($13::bigint[]) k (route) ON CONFLICT DO NOTHING;

-- name: renew
-- Renew a lease, unless the worker was stopped or declared dead; the server's clock.
UPDATE {schema}.workers
SET lease_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2, beat = $3, boot = $4, sidecar = $5
WHERE worker_key = $1 AND stopped <> 1
RETURNING lease_until - $2;

-- name: mark_session
-- Note which session holds a worker's lock, unless the worker was stopped or declared dead.
UPDATE {schema}.workers SET boot = $2, sidecar = $3 WHERE worker_key = $1 AND stopped <> 1;

-- name: lock_worker
-- Wait until nobody claims for a worker any more, and keep it so to the end of the transaction; whether it has stopped,
-- and what shows that it lives: the session that its row names, and its heartbeats.
SELECT stopped <> 0, sidecar, beat FROM {schema}.workers WHERE worker_key = $1 FOR UPDATE;

-- name: lock_dead_worker
-- The same without waiting: nothing if somebody claims for it, or takes its runs.
SELECT stopped <> 0, sidecar, beat FROM {schema}.workers WHERE worker_key = $1 FOR UPDATE SKIP LOCKED;

-- name: has_row
-- Whether a worker has a row.
SELECT EXISTS (SELECT FROM {schema}.workers WHERE worker_key = $1);

-- name: leave_worker
-- Mark a worker as leaving: it claims nothing more, and if it dies with what it holds, that is no crash.
UPDATE {schema}.workers SET stopped = 2 WHERE worker_key = $1 AND stopped = 0;

-- name: retire_worker
-- Mark a worker stopped: it claims and renews nothing more.
UPDATE {schema}.workers SET stopped = 1 WHERE worker_key = $1;

-- name: forget_worker
-- Delete a worker that holds nothing.
DELETE FROM {schema}.workers WHERE worker_key = $1 AND NOT EXISTS (SELECT FROM {schema}.runs WHERE worker_key = $1);

-- name: list_workers
-- All workers, as records.WorkerRow.
SELECT worker_key, name, host, pid, pid_started, boot, build, sidecar, started_at, lease_until, beat,
       (SELECT run_key FROM {schema}.runs r WHERE r.worker_key = w.worker_key AND r.crashes >= 2 LIMIT 1), stopped
FROM {schema}.workers w ORDER BY worker_key;

-- name: watch_workers
-- What is known of each worker, whether its lock is held, and for how long (µs) and since when the server has been up.
WITH locks AS MATERIALIZED (
  SELECT (l.classid::bigint << 32) | l.objid::bigint AS lock_key
  FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
)
SELECT w.worker_key, w.boot, w.sidecar, w.lock_key IN (SELECT lock_key FROM locks), w.beat, w.lease_until <= t.now,
       w.stopped = 1, t.now - (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
       extract(epoch FROM pg_postmaster_start_time())::text
FROM {schema}.workers w, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) t;

-- name: list_holders
-- Every worker key that holds a run, hopping through the index from one to the next.
WITH RECURSIVE holder (worker_key) AS (
  (SELECT r.worker_key FROM {schema}.runs r WHERE r.worker_key IS NOT NULL ORDER BY r.worker_key LIMIT 1)
  UNION ALL
  SELECT (SELECT r.worker_key FROM {schema}.runs r WHERE r.worker_key > holder.worker_key ORDER BY r.worker_key LIMIT 1)
  FROM holder WHERE holder.worker_key IS NOT NULL
)
SELECT worker_key FROM holder WHERE worker_key IS NOT NULL;

-- name: session
-- Which start of the server this session is of, and what names the session.
SELECT extract(epoch FROM pg_postmaster_start_time())::text, pg_backend_pid() || '/' || extract(epoch FROM backend_start)
FROM pg_stat_get_activity(pg_backend_pid());

-- name: lock_session
-- Take a lock that lasts as long as the session; whether it was to be had.
SELECT pg_try_advisory_lock($1);

-- name: unlock_session
-- Let such a lock go.
SELECT pg_advisory_unlock($1);
