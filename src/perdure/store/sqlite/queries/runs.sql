-- name: intern_route
-- Give a route its number, unless it has one.
INSERT INTO routes (namespace, queue, workflow, version) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- name: find_route
-- The number of a route.
SELECT route FROM routes WHERE namespace = ?1 AND queue = ?2 AND workflow = ?3 AND version = ?4;

-- name: create_runs
-- Insert a run, or nothing if its id or its idempotency key is taken.
INSERT INTO runs (run_key, namespace, run_id, uid, route, status, epoch, worker_key, seq, hash, rank, wake_at, deadline_at,
                  priority, partition, parent_key, idem, meta, codec, format, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
ON CONFLICT DO NOTHING;

-- name: last_run_key
-- The highest key ever given.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'runs'), 0);

-- name: runs_since
-- The keys from one on.
SELECT run_key FROM runs WHERE run_key >= ?1;

-- name: find_run_key
-- The key of the run that has the id, else of the one that has the idempotency key.
SELECT coalesce((SELECT run_key FROM runs WHERE namespace = ?1 AND run_id = ?2),
                (SELECT run_key FROM runs WHERE namespace = ?1 AND idem = ?3));

-- name: get_run
-- A run by its id.
SELECT * FROM run_rows WHERE namespace = ?1 AND run_id = ?2;

-- name: get_runs
-- Runs by their keys (a JSON list).
SELECT r.* FROM json_each(?1) j CROSS JOIN run_rows r ON r.run_key = j.value;

-- name: list_runs
-- Runs of a namespace, newest first, below the cursor: by key (hence the plus), since an index by name would sort.
SELECT * FROM run_rows WHERE run_key < ?1 AND +namespace = ?2 ORDER BY run_key DESC LIMIT ?3;

-- name: list_runs_of_status
-- The same with one status, and of some routes (a JSON list) if any are given.
SELECT * FROM run_rows
WHERE status = ?4 AND run_key < ?1 AND +namespace = ?2
  AND (?5 IS NULL OR route IN (SELECT value FROM json_each(?5)))
ORDER BY run_key DESC LIMIT ?3;

-- name: list_runs_of_route
-- The same of one route, with any status.
SELECT * FROM run_rows WHERE route = ?4 AND run_key < ?1 AND +namespace = ?2 ORDER BY run_key DESC LIMIT ?3;

-- name: list_routes
-- The routes of a workflow in a namespace.
SELECT route FROM routes WHERE namespace = ?1 AND workflow = ?2;
