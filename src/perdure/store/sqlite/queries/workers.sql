-- name: register_worker
-- Insert a worker.
INSERT INTO workers (worker_key, name, host, pid, pid_started, boot, build, sidecar, started_at, lease_until, beat)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- name: renew
-- Renew a lease, unless the worker was stopped or declared dead.
UPDATE workers SET lease_until = ?2, beat = ?3, sidecar = ?4 WHERE worker_key = ?1 AND stopped <> 1;

-- name: leave_worker
-- Mark a worker as leaving: it claims nothing more, and if it dies with what it holds, that is no crash.
UPDATE workers SET stopped = 2 WHERE worker_key = ?1 AND stopped = 0;

-- name: retire_worker
-- Mark a worker stopped: it claims and renews nothing more.
UPDATE workers SET stopped = 1 WHERE worker_key = ?1;

-- name: forget_worker
-- Delete a worker that holds nothing.
DELETE FROM workers WHERE worker_key = ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE worker_key = ?1);

-- name: list_workers
-- All workers, as records.WorkerRow.
SELECT worker_key, name, host, pid, pid_started, boot, build, sidecar, started_at, lease_until, beat,
       (SELECT run_key FROM runs r WHERE r.worker_key = w.worker_key AND r.crashes >= 2 LIMIT 1), stopped
FROM workers w ORDER BY worker_key;

-- name: watch_workers
-- The same without looking for suspects: asked many times a second.
SELECT worker_key, name, host, pid, pid_started, boot, build, sidecar, started_at, lease_until, beat, NULL, stopped
FROM workers;

-- name: list_holders
-- Every worker key that holds a run, hopping through the index from one to the next.
WITH RECURSIVE holder (worker_key) AS (
  SELECT min(worker_key) FROM runs WHERE worker_key IS NOT NULL
  UNION ALL
  SELECT (SELECT min(r.worker_key) FROM runs r WHERE r.worker_key > holder.worker_key)
  FROM holder WHERE holder.worker_key IS NOT NULL
)
SELECT worker_key FROM holder WHERE worker_key IS NOT NULL;
