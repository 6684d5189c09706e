-- name: look_at_queues
-- The queues of these routes that let not everything through, with the routes of each; then what is held of it, by whom it
-- is held ($2: by this worker), how many have begun within its rate's period before $3, and whether one has begun later;
-- and whether runs of these routes are claimable, have been claimed before, have become due, or are suspects.
WITH held AS MATERIALIZED (SELECT route, worker_key FROM {schema}.runs WHERE worker_key IS NOT NULL)
SELECT q.queue_key, q.namespace, q.name, q.concurrency, q.per_worker, q.per_partition, q.starts, q.period, q.paused, q.turn,
       q.build, q.since, k.routes, h.runs, h.mine,
       CASE WHEN q.period IS NULL THEN 0 ELSE
         (SELECT count(*) FROM {schema}.queue_starts s WHERE s.queue_key = q.queue_key AND s.at > $3 - q.period) END,
       EXISTS (SELECT FROM {schema}.queue_starts s WHERE s.queue_key = q.queue_key AND s.at > $3),
       EXISTS (SELECT FROM unnest(k.routes) one (route) CROSS JOIN LATERAL (
                 SELECT FROM {schema}.runs r
                 WHERE r.route = one.route AND r.rank IS NOT NULL AND r.refused IS NULL LIMIT 1) ready),
       EXISTS (SELECT FROM unnest(k.routes) one (route) CROSS JOIN LATERAL (
                 SELECT FROM {schema}.runs r
                 WHERE r.route = one.route AND r.rank IS NOT NULL AND r.refused IS NULL AND r.started_at IS NOT NULL
                 LIMIT 1) begun),
       EXISTS (SELECT FROM unnest(k.routes) one (route) CROSS JOIN LATERAL (
                 SELECT FROM {schema}.runs r
                 WHERE r.route = one.route AND r.wake_at <= $3 AND r.rank IS NULL LIMIT 1) due),
       EXISTS (SELECT FROM unnest(k.routes) one (route) CROSS JOIN LATERAL (
                 SELECT FROM {schema}.runs r
                 WHERE r.route = one.route AND r.rank IS NOT NULL AND r.crashes >= 2 LIMIT 1) suspect)
FROM {schema}.limiting_queues q
CROSS JOIN LATERAL (SELECT array_agg(t.route) AS routes FROM {schema}.routes t
                    WHERE t.namespace = q.namespace AND t.queue = q.name AND t.route = ANY ($1::bigint[])) k
CROSS JOIN LATERAL (SELECT count(*) AS runs, count(*) FILTER (WHERE o.worker_key = $2) AS mine
                    FROM held o JOIN {schema}.routes t ON t.route = o.route
                    WHERE t.namespace = q.namespace AND t.queue = q.name) h
WHERE k.routes IS NOT NULL;

-- name: lock_queues
-- Lock queues, in the order of their keys: whoever claims from one with limits does so alone.
SELECT queue_key, namespace, name, concurrency, per_worker, per_partition, starts, period, paused, turn, build, since
FROM {schema}.queues WHERE queue_key = ANY ($1::bigint[]) ORDER BY queue_key FOR NO KEY UPDATE;

-- name: held_of_queues
-- What each worker holds of these queues with each partition key.
WITH held AS MATERIALIZED (SELECT route, worker_key, partition FROM {schema}.runs WHERE worker_key IS NOT NULL)
SELECT q.queue_key, h.worker_key, h.partition, count(*)
FROM held h JOIN {schema}.routes t ON t.route = h.route
JOIN {schema}.queues q ON q.namespace = t.namespace AND q.name = t.queue
WHERE q.queue_key = ANY ($1::bigint[]) GROUP BY q.queue_key, h.worker_key, h.partition;

-- name: count_starts
-- How many runs of a queue have begun since an instant.
SELECT count(*) FROM {schema}.queue_starts WHERE queue_key = $1 AND at > $2;

-- name: latest_starts
-- When the latest runs of a queue have begun, latest first.
SELECT at FROM {schema}.queue_starts WHERE queue_key = $1 ORDER BY at DESC LIMIT $2;

-- name: note_starts
-- Runs of a queue have begun.
INSERT INTO {schema}.queue_starts (queue_key, at, run_key)
SELECT $1, $2, k.run_key FROM unnest($3::bigint[]) k (run_key) ON CONFLICT DO NOTHING;

-- name: forget_starts
-- Forget what has begun so long ago that no rate counts it.
DELETE FROM {schema}.queue_starts WHERE queue_key = $1 AND at <= $2;

-- name: set_back_starts
-- What has begun in the future, by a clock that was set back since, has begun now.
UPDATE {schema}.queue_starts SET at = $2 WHERE queue_key = $1 AND at > $2;

-- name: turn_queue
-- Note which partition key was served last.
UPDATE {schema}.queues SET turn = $2 WHERE queue_key = $1;

-- name: gated_ready
-- Lock the first claimable runs of each of these routes that are no suspects and that nobody has refused.
WITH holder AS MATERIALIZED (
  SELECT worker_key FROM {schema}.workers WHERE worker_key = $4 AND stopped = 0 FOR KEY SHARE
)
SELECT c.run_key, c.namespace, c.run_id, c.uid, t.workflow, t.version, t.queue, c.status, c.epoch, c.worker_key,
       c.seq, c.hash, c.inbox, c.crashes, c.wake_at, c.deadline_at, c.priority, c.partition, c.parent_key,
       c.idem, c.reason, c.meta, c.format, c.created_at, c.ended_at, c.undo, c.rank, c.started_at IS NULL
FROM holder CROSS JOIN unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
  SELECT r.* FROM {schema}.runs r
  WHERE r.route = k.route AND r.rank IS NOT NULL AND r.refused IS NULL AND r.crashes < 2 AND r.format <= $3
  ORDER BY r.rank, r.run_key LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) c
JOIN {schema}.routes t ON t.route = c.route;

-- name: gated_new
-- The same of those that have never been claimed.
WITH holder AS MATERIALIZED (
  SELECT worker_key FROM {schema}.workers WHERE worker_key = $4 AND stopped = 0 FOR KEY SHARE
)
SELECT c.run_key, c.namespace, c.run_id, c.uid, t.workflow, t.version, t.queue, c.status, c.epoch, c.worker_key,
       c.seq, c.hash, c.inbox, c.crashes, c.wake_at, c.deadline_at, c.priority, c.partition, c.parent_key,
       c.idem, c.reason, c.meta, c.format, c.created_at, c.ended_at, c.undo, c.rank, c.started_at IS NULL
FROM holder CROSS JOIN unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
  SELECT r.* FROM {schema}.runs r
  WHERE r.route = k.route AND r.rank IS NOT NULL AND r.refused IS NULL AND r.crashes < 2 AND r.format <= $3
    AND r.started_at IS NULL
  ORDER BY r.rank, r.run_key LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) c
JOIN {schema}.routes t ON t.route = c.route;

-- name: gated_begun
-- The same of those that have been.
WITH holder AS MATERIALIZED (
  SELECT worker_key FROM {schema}.workers WHERE worker_key = $4 AND stopped = 0 FOR KEY SHARE
)
SELECT c.run_key, c.namespace, c.run_id, c.uid, t.workflow, t.version, t.queue, c.status, c.epoch, c.worker_key,
       c.seq, c.hash, c.inbox, c.crashes, c.wake_at, c.deadline_at, c.priority, c.partition, c.parent_key,
       c.idem, c.reason, c.meta, c.format, c.created_at, c.ended_at, c.undo, c.rank, c.started_at IS NULL
FROM holder CROSS JOIN unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
  SELECT r.* FROM {schema}.runs r
  WHERE r.route = k.route AND r.rank IS NOT NULL AND r.refused IS NULL AND r.crashes < 2 AND r.format <= $3
    AND r.started_at IS NOT NULL
  ORDER BY r.rank, r.run_key LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) c
JOIN {schema}.routes t ON t.route = c.route;

-- name: gated_whole
-- The same of those that have no partition key.
WITH holder AS MATERIALIZED (
  SELECT worker_key FROM {schema}.workers WHERE worker_key = $4 AND stopped = 0 FOR KEY SHARE
)
SELECT c.run_key, c.namespace, c.run_id, c.uid, t.workflow, t.version, t.queue, c.status, c.epoch, c.worker_key,
       c.seq, c.hash, c.inbox, c.crashes, c.wake_at, c.deadline_at, c.priority, c.partition, c.parent_key,
       c.idem, c.reason, c.meta, c.format, c.created_at, c.ended_at, c.undo, c.rank, c.started_at IS NULL
FROM holder CROSS JOIN unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
  SELECT r.* FROM {schema}.runs r
  WHERE r.route = k.route AND r.rank IS NOT NULL AND r.refused IS NULL AND r.crashes < 2 AND r.format <= $3
    AND r.partition IS NULL
  ORDER BY r.rank, r.run_key LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) c
JOIN {schema}.routes t ON t.route = c.route;

-- name: gated_parts
-- The same of those that have a partition key after $5, of so many ($6) keys, but for some ($7): $2 of each. From key to
-- key no runs in between are touched.
WITH RECURSIVE holder AS MATERIALIZED (
  SELECT worker_key FROM {schema}.workers WHERE worker_key = $4 AND stopped = 0 FOR KEY SHARE
), keys (route, key, number) AS (
  SELECT k.route, (SELECT min(r.partition) FROM {schema}.runs r
                   WHERE r.route = k.route AND r.rank IS NOT NULL AND r.refused IS NULL AND r.partition IS NOT NULL
                     AND r.partition > $5), 1
  FROM unnest($1::bigint[]) k (route)
  UNION ALL
  SELECT keys.route, (SELECT min(r.partition) FROM {schema}.runs r
                      WHERE r.route = keys.route AND r.rank IS NOT NULL AND r.refused IS NULL AND r.partition IS NOT NULL
                        AND r.partition > keys.key), keys.number + 1
  FROM keys WHERE keys.key IS NOT NULL AND keys.number < $6
)
SELECT c.run_key, c.namespace, c.run_id, c.uid, t.workflow, t.version, t.queue, c.status, c.epoch, c.worker_key,
       c.seq, c.hash, c.inbox, c.crashes, c.wake_at, c.deadline_at, c.priority, c.partition, c.parent_key,
       c.idem, c.reason, c.meta, c.format, c.created_at, c.ended_at, c.undo, c.rank, c.started_at IS NULL
FROM holder CROSS JOIN keys CROSS JOIN LATERAL (
  SELECT r.* FROM {schema}.runs r
  WHERE r.route = keys.route AND r.partition = keys.key AND r.rank IS NOT NULL AND r.refused IS NULL AND r.crashes < 2
    AND r.format <= $3
  ORDER BY r.rank, r.run_key LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) c
JOIN {schema}.routes t ON t.route = c.route
WHERE keys.key IS NOT NULL AND keys.key <> ALL ($7::text[]);

-- name: find_queue
-- Lock a queue by its name.
SELECT queue_key, namespace, name, concurrency, per_worker, per_partition, starts, period, paused, turn, build, since
FROM {schema}.queues WHERE namespace = $1 AND name = $2 FOR NO KEY UPDATE;

-- name: define_queue
-- Define a queue, or define it anew.
INSERT INTO {schema}.queues AS q (namespace, name, concurrency, per_worker, per_partition, starts, period, build, since)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (namespace, name) DO UPDATE SET
  concurrency = excluded.concurrency, per_worker = excluded.per_worker, per_partition = excluded.per_partition,
  starts = excluded.starts, period = excluded.period, build = excluded.build, since = excluded.since;

-- name: pause_queue
-- Claim nothing more from a queue, or claim from it again.
INSERT INTO {schema}.queues AS q (namespace, name, paused) VALUES ($1, $2, $3)
ON CONFLICT (namespace, name) DO UPDATE SET paused = excluded.paused WHERE q.paused <> excluded.paused;

-- name: list_queues
-- The queues of a namespace: those that are defined, and the names of the others that runs have been in.
SELECT q.queue_key, q.namespace, q.name, q.concurrency, q.per_worker, q.per_partition, q.starts, q.period, q.paused, q.turn,
       q.build, q.since
FROM {schema}.queues q WHERE q.namespace = $1
UNION ALL
SELECT DISTINCT 0, t.namespace, t.queue, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, 0, '', '',
       0
FROM {schema}.routes t
WHERE t.namespace = $1 AND NOT EXISTS (SELECT FROM {schema}.queues q WHERE q.namespace = t.namespace AND q.name = t.queue)
ORDER BY 3;

-- name: queue_counts
-- How many runs of a queue are held, and how many are claimable, counted up to a bound.
WITH held AS MATERIALIZED (SELECT route FROM {schema}.runs WHERE worker_key IS NOT NULL)
SELECT (SELECT count(*) FROM held h JOIN {schema}.routes t ON t.route = h.route
        WHERE t.namespace = $1 AND t.queue = $2),
       (SELECT count(*) FROM (
          SELECT FROM {schema}.routes t CROSS JOIN LATERAL (
            (SELECT FROM {schema}.runs r
             WHERE r.route = t.route AND r.rank IS NOT NULL AND r.refused IS NULL LIMIT $3)
            UNION ALL
            (SELECT FROM {schema}.runs r
             WHERE r.route = t.route AND r.rank IS NOT NULL AND r.refused IS NOT NULL LIMIT $3)) one
          WHERE t.namespace = $1 AND t.queue = $2 LIMIT $3) ready);
