-- name: limiting_queues
-- The queues of these routes (a JSON list) that let not everything through, with the routes of each.
SELECT q.queue_key, q.namespace, q.name, q.concurrency, q.per_worker, q.per_partition, q.starts, q.period, q.paused, q.turn,
       q.build, q.since, json_group_array(t.route)
FROM queues q CROSS JOIN json_each(?1) j CROSS JOIN routes t
  ON t.route = j.value AND t.namespace = q.namespace AND t.queue = q.name
WHERE q.paused OR coalesce(q.concurrency, q.per_worker, q.per_partition, q.starts) IS NOT NULL
GROUP BY q.queue_key;

-- name: held_of_queues
-- What each worker holds of each queue with each partition key.
SELECT q.queue_key, r.worker_key, r.partition, count(*)
FROM runs r INDEXED BY runs_held CROSS JOIN routes t ON t.route = r.route
CROSS JOIN queues q ON q.namespace = t.namespace AND q.name = t.queue
WHERE r.worker_key IS NOT NULL GROUP BY q.queue_key, r.worker_key, r.partition;

-- name: count_starts
-- How many runs of a queue have begun since an instant.
SELECT count(*) FROM queue_starts WHERE queue_key = ?1 AND at > ?2;

-- name: latest_starts
-- When the latest runs of a queue have begun, latest first.
SELECT at FROM queue_starts WHERE queue_key = ?1 ORDER BY at DESC LIMIT ?2;

-- name: note_start
-- A run of a queue has begun.
INSERT INTO queue_starts (queue_key, at, run_key) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING;

-- name: forget_starts
-- Forget what has begun so long ago that no rate counts it.
DELETE FROM queue_starts WHERE queue_key = ?1 AND at <= ?2;

-- name: set_back_starts
-- What has begun in the future, by a clock that was set back since, has begun now.
UPDATE queue_starts SET at = ?2 WHERE queue_key = ?1 AND at > ?2;

-- name: turn_queue
-- Note which partition key was served last.
UPDATE queues SET turn = ?2 WHERE queue_key = ?1;

-- name: gated_ready
-- The first claimable runs of one route that are no suspects and that nobody has refused.
SELECT rank, run_key, epoch, seq, hash, partition, started_at IS NULL FROM runs
WHERE route = ?1 AND rank IS NOT NULL AND refused IS NULL AND crashes < 2 AND format <= ?3
ORDER BY rank, run_key LIMIT ?2;

-- name: gated_new
-- The same of those that have never been claimed.
SELECT rank, run_key, epoch, seq, hash, partition, started_at IS NULL FROM runs
WHERE route = ?1 AND rank IS NOT NULL AND refused IS NULL AND crashes < 2 AND format <= ?3 AND started_at IS NULL
ORDER BY rank, run_key LIMIT ?2;

-- name: gated_begun
-- The same of those that have been.
SELECT rank, run_key, epoch, seq, hash, partition, started_at IS NULL FROM runs
WHERE route = ?1 AND rank IS NOT NULL AND refused IS NULL AND crashes < 2 AND format <= ?3 AND started_at IS NOT NULL
ORDER BY rank, run_key LIMIT ?2;

-- name: gated_refused
-- The first claimable runs of one route that one set of builds has refused.
SELECT rank, run_key, epoch, seq, hash, partition, started_at IS NULL FROM runs
WHERE route = ?1 AND rank IS NOT NULL AND refused = ?4 AND crashes < 2 AND format <= ?3
ORDER BY rank, run_key LIMIT ?2;

-- name: gated_whole
-- The first claimable runs of one route that have no partition key.
SELECT rank, run_key, epoch, seq, hash, partition, started_at IS NULL FROM runs
WHERE route = ?1 AND rank IS NOT NULL AND refused IS NULL AND crashes < 2 AND format <= ?3 AND partition IS NULL
ORDER BY rank, run_key LIMIT ?2;

-- name: gated_part
-- The first claimable runs of one route that have one partition key.
SELECT rank, run_key, epoch, seq, hash, partition, started_at IS NULL FROM runs
WHERE route = ?1 AND partition = ?4 AND rank IS NOT NULL AND refused IS NULL AND crashes < 2 AND format <= ?3
ORDER BY rank, run_key LIMIT ?2;

-- name: partitions_after
-- The partition keys of the claimable runs of one route, after one, from key to key without touching runs in between.
WITH RECURSIVE keys (key) AS (
  SELECT min(partition) FROM runs
  WHERE route = ?1 AND rank IS NOT NULL AND refused IS NULL AND partition IS NOT NULL AND partition > ?2
  UNION ALL
  SELECT (SELECT min(r.partition) FROM runs r
          WHERE r.route = ?1 AND r.rank IS NOT NULL AND r.refused IS NULL AND r.partition IS NOT NULL
            AND r.partition > keys.key)
  FROM keys WHERE keys.key IS NOT NULL
)
SELECT key FROM keys WHERE key IS NOT NULL LIMIT ?3;

-- name: find_queue
-- A queue by its name.
SELECT queue_key, namespace, name, concurrency, per_worker, per_partition, starts, period, paused, turn, build, since
FROM queues WHERE namespace = ?1 AND name = ?2;

-- name: define_queue
-- Define a queue, or define it anew.
INSERT INTO queues (namespace, name, concurrency, per_worker, per_partition, starts, period, build, since)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (namespace, name) DO UPDATE SET
  concurrency = excluded.concurrency, per_worker = excluded.per_worker, per_partition = excluded.per_partition,
  starts = excluded.starts, period = excluded.period, build = excluded.build, since = excluded.since;

-- name: pause_queue
-- Claim nothing more from a queue, or claim from it again.
INSERT INTO queues (namespace, name, paused) VALUES (?1, ?2, ?3)
ON CONFLICT (namespace, name) DO UPDATE SET paused = excluded.paused WHERE paused <> excluded.paused;

-- name: list_queues
-- The queues of a namespace: those that are defined, and the names of the others that runs have been in.
SELECT q.queue_key, q.namespace, q.name, q.concurrency, q.per_worker, q.per_partition, q.starts, q.period, q.paused, q.turn,
       q.build, q.since
FROM queues q WHERE q.namespace = ?1
UNION ALL
SELECT DISTINCT 0, t.namespace, t.queue, NULL, NULL, NULL, NULL, NULL, 0, '', '', 0 FROM routes t
WHERE t.namespace = ?1 AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.namespace = t.namespace AND q.name = t.queue)
ORDER BY 3;

-- name: held_of_routes
-- How many runs of each route are held.
SELECT route, count(*) FROM runs INDEXED BY runs_held WHERE worker_key IS NOT NULL GROUP BY route;

-- name: count_ready
-- How many runs of one route are claimable, counted up to a bound.
SELECT (SELECT count(*) FROM (SELECT 1 FROM runs WHERE route = ?1 AND rank IS NOT NULL AND refused IS NULL LIMIT ?2))
     + (SELECT count(*) FROM (SELECT 1 FROM runs WHERE route = ?1 AND rank IS NOT NULL AND refused IS NOT NULL LIMIT ?2));

-- name: routes_of_queue
-- The routes of a queue.
SELECT route FROM routes WHERE namespace = ?1 AND queue = ?2;

-- name: any_due
-- Whether a run of these routes (a JSON list) has become due, or a suspect of them is claimable.
SELECT EXISTS (SELECT 1 FROM json_each(?1) j CROSS JOIN runs r ON r.route = j.value
               WHERE r.wake_at <= ?2 AND r.rank IS NULL)
    OR EXISTS (SELECT 1 FROM json_each(?1) j CROSS JOIN runs r ON r.route = j.value
               WHERE r.rank IS NOT NULL AND r.crashes >= 2);
