-- name: intern_route
-- Give a route its number, unless it has one.
INSERT INTO routes (namespace, queue, workflow, version) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- name: find_route
-- The number of a route.
SELECT route FROM routes WHERE namespace = ?1 AND queue = ?2 AND workflow = ?3 AND version = ?4;

-- name: create_runs
-- Insert a run, or nothing if its id or its idempotency key is taken, or was by a run that has been purged.
INSERT INTO runs (run_key, namespace, run_id, uid, route, status, epoch, worker_key, seq, hash, rank, wake_at, deadline_at,
                  priority, partition, parent_key, idem, meta, codec, format, created_at, started_at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22
WHERE NOT EXISTS (SELECT 1 FROM tombstones WHERE namespace = ?2 AND run_id = ?3)
  AND NOT EXISTS (SELECT 1 FROM tombstones WHERE namespace = ?2 AND idem = ?17)
ON CONFLICT DO NOTHING;

-- name: run_of_key
-- What there is under an idempotency key, as reuse.Found.
SELECT run_key, run_id, uid, route, created_at, seq > 1, ended_at IS NOT NULL, meta FROM runs
WHERE namespace = ?1 AND idem = ?2;

-- name: free_key
-- Let a run's idempotency key stand for another one.
UPDATE runs SET idem = NULL WHERE run_key = ?1;

-- name: put_off_event
-- Write the first event anew of a run that nobody has begun.
UPDATE events SET codec = ?2, payload = ?3, args = ?4, hash = ?5 WHERE run_key = ?1 AND seq = 1;

-- name: put_off_run
-- Put off a run that nobody has begun.
UPDATE runs SET hash = ?2, codec = ?3, wake_at = ?4, rank = ?5, deadline_at = ?6, priority = ?7, partition = ?8, meta = ?9
WHERE run_key = ?1;

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

-- name: over
-- Those of these runs (a JSON list) that have ended, are blocked (7), or are not there.
SELECT j.value FROM json_each(?1) j
WHERE coalesce((SELECT r.status FROM runs r WHERE r.run_key = j.value), 11) >= 7 LIMIT ?2;

-- name: find_parent
-- The parent of a run, and what the run is called there.
SELECT parent_key, run_id FROM runs WHERE run_key = ?1 AND parent_key IS NOT NULL;

-- name: rename_run
-- Give a run another id; parent and idempotency key go with the old one.
UPDATE runs SET run_id = ?2, idem = NULL, parent_key = NULL WHERE run_key = ?1;

-- name: list_namespaces
-- The namespaces that any run, schedule or worker was ever in.
SELECT DISTINCT namespace FROM routes ORDER BY namespace;
