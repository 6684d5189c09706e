-- name: intern_routes
-- Give routes their numbers, unless they have them.
INSERT INTO {schema}.routes (namespace, queue, workflow, version)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) ON CONFLICT DO NOTHING;

-- name: find_route
-- The number of a route.
SELECT route FROM {schema}.routes WHERE namespace = $1 AND queue = $2 AND workflow = $3 AND version = $4;

-- name: create_runs
-- Insert runs whose id and idempotency key are free, and were not those of runs that have been purged, with their first
-- events; claimed if $16 is a working worker, but for those of queues with limits.
WITH new AS MATERIALIZED (
  SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                       $8::bigint[], $9::bigint[], $10::text[], $11::bigint[], $12::text[], $13::bytea[], $14::bigint[],
                       $15::bytea[], $18::bytea[], $19::bytea[], $20::bigint[], $21::bytea[]) WITH ORDINALITY
    AS n (namespace, run_id, uid, route, created_at, rank, wake_at, deadline_at, priority, partition, parent_key, idem,
          meta, codec, payload, origin, hash, claimed_at, claimed_hash, number)
), holder AS MATERIALIZED (
  SELECT worker_key FROM {schema}.workers WHERE worker_key = $16 AND stopped = 0 FOR KEY SHARE
), made AS (
  INSERT INTO {schema}.runs (namespace, run_id, uid, route, status, epoch, worker_key, seq, hash, rank, wake_at,
                             deadline_at, priority, partition, parent_key, idem, meta, codec, format, created_at,
                             started_at)
  SELECT n.namespace, n.run_id, n.uid, n.route,
         CASE WHEN h.worker_key IS NULL THEN 1 ELSE 2 END, CASE WHEN h.worker_key IS NULL THEN 0 ELSE 1 END,
         h.worker_key, CASE WHEN h.worker_key IS NULL THEN 1 ELSE 2 END,
         CASE WHEN h.worker_key IS NULL THEN n.hash ELSE n.claimed_hash END,
         CASE WHEN h.worker_key IS NULL THEN n.rank END, n.wake_at, n.deadline_at, n.priority, n.partition,
         n.parent_key, n.idem, n.meta, n.codec, $22, n.created_at,
         CASE WHEN h.worker_key IS NOT NULL THEN n.claimed_at END
  FROM new n LEFT JOIN holder h ON n.wake_at IS NULL AND NOT EXISTS (
    SELECT FROM {schema}.limiting_queues q JOIN {schema}.routes t ON t.namespace = q.namespace AND t.queue = q.name
    WHERE t.route = n.route)
  -- One by one: scalar queries are neither joined nor hashed.
  WHERE (SELECT true FROM {schema}.tombstones b WHERE b.namespace = n.namespace AND b.run_id = n.run_id) IS NULL
    AND (SELECT true FROM {schema}.tombstones b WHERE b.namespace = n.namespace AND b.idem = n.idem LIMIT 1) IS NULL
  ORDER BY n.number
  ON CONFLICT DO NOTHING RETURNING run_key, uid, worker_key
), created AS (
  INSERT INTO {schema}.events (run_key, seq, at, epoch, kind, codec, payload, args, hash)
  SELECT m.run_key, 1, n.created_at, 0, 1, n.codec, n.payload, n.origin, n.hash FROM made m JOIN new n ON n.uid = m.uid
  UNION ALL
  SELECT m.run_key, 2, n.claimed_at, 1, 2, 0, $17::bytea, NULL, n.claimed_hash FROM made m JOIN new n ON n.uid = m.uid
  WHERE m.worker_key IS NOT NULL
)
SELECT uid, run_key, worker_key FROM made;

-- name: run_of_key
-- Lock what there is under an idempotency key: as reuse.Found.
SELECT run_key, run_id, uid, route, created_at, seq > 1, ended_at IS NOT NULL OR status = 11, meta FROM {schema}.runs
WHERE namespace = $1 AND idem = $2 FOR NO KEY UPDATE;

-- name: free_key
-- Let a run's idempotency key stand for another one.
UPDATE {schema}.runs SET idem = NULL WHERE run_key = $1;

-- name: put_off_event
-- Write the first event anew of a run that nobody has begun.
UPDATE {schema}.events SET codec = $2, payload = $3, args = $4, hash = $5 WHERE run_key = $1 AND seq = 1;

-- name: put_off_run
-- Put off a run that nobody has begun.
UPDATE {schema}.runs SET hash = $2, codec = $3, wake_at = $4, rank = $5, deadline_at = $6, priority = $7, partition = $8,
                         meta = $9
WHERE run_key = $1;

-- name: find_runs
-- The runs that have the ids, else those that have the idempotency keys, by their place in what was asked for.
SELECT n.number, v.*
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS n (namespace, run_id, idem, number)
CROSS JOIN LATERAL (
  SELECT coalesce((SELECT r.run_key FROM {schema}.runs r WHERE r.namespace = n.namespace AND r.run_id = n.run_id),
                  (SELECT r.run_key FROM {schema}.runs r WHERE r.namespace = n.namespace AND r.idem = n.idem)) AS run_key
) found
-- One by one: it is neither joined nor hashed, so no plan walks through all runs.
CROSS JOIN LATERAL (SELECT * FROM {schema}.run_rows r WHERE r.run_key = found.run_key LIMIT 1) v;

-- name: get_run
-- A run by its id.
SELECT * FROM {schema}.run_rows WHERE namespace = $1 AND run_id = $2;

-- name: get_runs
-- Runs by their keys.
SELECT * FROM {schema}.run_rows WHERE run_key = ANY ($1::bigint[]);

-- name: over
-- Those of these runs that have ended, are blocked (7), or are not there: the key, then the row.
WITH gone AS MATERIALIZED (
  SELECT k.run_key FROM unnest($1::bigint[]) k (run_key)
  WHERE coalesce((SELECT o.status FROM {schema}.runs o WHERE o.run_key = k.run_key), 11) >= 7 LIMIT $2
)
SELECT g.run_key, c.* FROM gone g
LEFT JOIN LATERAL (SELECT * FROM {schema}.run_rows r WHERE r.run_key = g.run_key LIMIT 1) c ON true;

-- name: find_parent
-- The parent of a run, and what the run is called there.
SELECT parent_key, run_id FROM {schema}.runs WHERE run_key = $1 AND parent_key IS NOT NULL;

-- name: rename_run
-- Give a run another id; parent and idempotency key go with the old one.
UPDATE {schema}.runs SET run_id = $2, idem = NULL, parent_key = NULL WHERE run_key = $1;

-- name: list_namespaces
-- The namespaces that any run, schedule or worker was ever in.
SELECT DISTINCT namespace FROM {schema}.routes ORDER BY namespace;
