-- name: look_for_claims
-- The instant ($2, or now), whether runs are ready, due, refused by others, suspect; what others have refused; and which
-- queues have limits.
SELECT t.now,
       EXISTS (SELECT FROM unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
                 SELECT FROM {schema}.runs r
                 WHERE r.route = k.route AND r.rank IS NOT NULL AND r.refused IS NULL LIMIT 1) one),
       EXISTS (SELECT FROM unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
                 SELECT FROM {schema}.runs r
                 WHERE r.route = k.route AND r.wake_at <= t.now AND r.rank IS NULL LIMIT 1) one),
       EXISTS (SELECT FROM unnest($1::bigint[]) k (route) CROSS JOIN unnest(f.refusals) n (refusal) CROSS JOIN LATERAL (
                 SELECT FROM {schema}.runs r
                 WHERE r.route = k.route AND r.refused = n.refusal AND r.rank IS NOT NULL LIMIT 1) one),
       EXISTS (SELECT FROM unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
                 SELECT FROM {schema}.runs r
                 WHERE r.route = k.route AND r.rank IS NOT NULL AND r.crashes >= 2 LIMIT 1) one),
       f.refusals,
       ARRAY(SELECT queue_key FROM {schema}.limiting_queues ORDER BY queue_key)
FROM (SELECT coalesce($2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) t,
     (SELECT ARRAY(SELECT o.refusal FROM {schema}.refusals o WHERE NOT EXISTS (
        SELECT FROM {schema}.workers w WHERE w.worker_key = $3 AND w.build = ANY (o.builds))) AS refusals) f;

-- name: promote_due
-- Make runs of these routes whose time has come claimable, earliest first, a bounded number of each.
UPDATE {schema}.runs r SET rank = r.wake_at - r.priority * $4
FROM (SELECT due.run_key FROM unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
        SELECT d.run_key FROM {schema}.runs d WHERE d.route = k.route AND d.wake_at <= $2 AND d.rank IS NULL
        ORDER BY d.wake_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED) due) p
WHERE r.run_key = p.run_key;

-- name: promote_one
-- Make one run claimable if its time has come.
UPDATE {schema}.runs SET rank = wake_at - priority * $3 WHERE run_key = $1 AND wake_at <= $2 AND rank IS NULL;

-- name: claim_ready
-- Lock the first runs of these routes, no suspects, refused by nobody: of each as many as are among the first of all.
-- With each that nobody has claimed before comes its log: a row for every event.
WITH holder AS MATERIALIZED (
  SELECT worker_key FROM {schema}.workers WHERE worker_key = $4 AND stopped = 0 FOR KEY SHARE
), wanted AS MATERIALIZED (
  SELECT first.route, count(*) AS many FROM (
    SELECT c.route FROM holder CROSS JOIN unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
      SELECT r.route, r.rank, r.run_key FROM {schema}.runs r
      WHERE r.route = k.route AND r.rank IS NOT NULL AND r.refused IS NULL AND r.crashes < 2 AND r.format <= $3
      ORDER BY r.rank, r.run_key LIMIT $2) c
    ORDER BY c.rank, c.run_key LIMIT $2) first
  GROUP BY first.route
)
SELECT c.run_key, c.namespace, c.run_id, c.uid, t.workflow, t.version, t.queue, c.status, c.epoch, c.worker_key,
       c.seq, c.hash, c.inbox, c.crashes, c.wake_at, c.deadline_at, c.priority, c.partition, c.parent_key,
       c.idem, c.reason, c.meta, c.format, c.created_at, c.ended_at, c.undo, c.rank, c.started_at IS NULL,
       e.seq, e.at, e.epoch, e.kind, e.key, e.attempt, e.took, e.codec, e.payload, e.args, e.hash
FROM wanted w CROSS JOIN LATERAL (
  SELECT r.* FROM {schema}.runs r
  WHERE r.route = w.route AND r.rank IS NOT NULL AND r.refused IS NULL AND r.crashes < 2 AND r.format <= $3
  ORDER BY r.rank, r.run_key LIMIT w.many FOR NO KEY UPDATE SKIP LOCKED) c
JOIN {schema}.routes t ON t.route = c.route
LEFT JOIN LATERAL (
  SELECT * FROM {schema}.events l WHERE l.run_key = c.run_key AND c.seq = 1 ORDER BY l.seq LIMIT $5
) e ON true;

-- name: claim_refused
-- The same of those that some sets of builds ($5) have refused.
WITH holder AS MATERIALIZED (
  SELECT worker_key FROM {schema}.workers WHERE worker_key = $4 AND stopped = 0 FOR KEY SHARE
)
SELECT c.run_key, c.namespace, c.run_id, c.uid, t.workflow, t.version, t.queue, c.status, c.epoch, c.worker_key,
       c.seq, c.hash, c.inbox, c.crashes, c.wake_at, c.deadline_at, c.priority, c.partition, c.parent_key,
       c.idem, c.reason, c.meta, c.format, c.created_at, c.ended_at, c.undo, c.rank, c.started_at IS NULL
FROM holder CROSS JOIN unnest($1::bigint[]) k (route) CROSS JOIN unnest($5::bigint[]) n (refusal) CROSS JOIN LATERAL (
  SELECT r.* FROM {schema}.runs r
  WHERE r.route = k.route AND r.refused = n.refusal AND r.rank IS NOT NULL AND r.crashes < 2 AND r.format <= $3
  ORDER BY r.rank, r.run_key LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) c
JOIN {schema}.routes t ON t.route = c.route;

-- name: claim_suspect
-- Lock the first claimable suspect of these routes ($4: of refused ones, of these), unless the worker holds one.
WITH holder AS MATERIALIZED (
  SELECT w.worker_key FROM {schema}.workers w
  WHERE w.worker_key = $3 AND w.stopped = 0
    AND NOT EXISTS (SELECT FROM {schema}.runs r WHERE r.worker_key = $3 AND r.crashes >= 2) FOR KEY SHARE
), first AS MATERIALIZED (
  SELECT c.run_key FROM holder CROSS JOIN unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
    SELECT r.rank, r.run_key FROM {schema}.runs r
    WHERE r.route = k.route AND r.rank IS NOT NULL AND r.crashes >= 2 AND r.format <= $2
      AND (r.refused IS NULL OR r.refused = ANY ($4::bigint[]))
    ORDER BY r.rank, r.run_key LIMIT 1) c
  ORDER BY c.rank, c.run_key LIMIT 1
)
SELECT c.run_key, c.namespace, c.run_id, c.uid, t.workflow, t.version, t.queue, c.status, c.epoch, c.worker_key,
       c.seq, c.hash, c.inbox, c.crashes, c.wake_at, c.deadline_at, c.priority, c.partition, c.parent_key,
       c.idem, c.reason, c.meta, c.format, c.created_at, c.ended_at, c.undo, c.rank, c.started_at IS NULL
FROM first f CROSS JOIN LATERAL (
  SELECT r.* FROM {schema}.runs r WHERE r.run_key = f.run_key AND r.rank IS NOT NULL AND r.crashes >= 2
  FOR NO KEY UPDATE SKIP LOCKED) c
JOIN {schema}.routes t ON t.route = c.route;

-- name: claim_one
-- Lock one run, if it is claimable, of one of the routes, no second suspect, and if refused, so by one of $5.
WITH holder AS MATERIALIZED (
  SELECT worker_key FROM {schema}.workers WHERE worker_key = $4 AND stopped = 0 FOR KEY SHARE
)
SELECT c.run_key, c.namespace, c.run_id, c.uid, t.workflow, t.version, t.queue, c.status, c.epoch, c.worker_key,
       c.seq, c.hash, c.inbox, c.crashes, c.wake_at, c.deadline_at, c.priority, c.partition, c.parent_key,
       c.idem, c.reason, c.meta, c.format, c.created_at, c.ended_at, c.undo, c.rank, c.started_at IS NULL
FROM holder CROSS JOIN LATERAL (
  SELECT r.* FROM {schema}.runs r
  WHERE r.run_key = $1 AND r.rank IS NOT NULL AND r.format <= $3 AND (r.route = ANY ($2::bigint[])) IS TRUE
    AND (r.refused IS NULL OR r.refused = ANY ($5::bigint[]))
    AND (r.crashes < 2 OR NOT EXISTS (SELECT FROM {schema}.runs s WHERE s.worker_key = $4 AND s.crashes >= 2))
  FOR NO KEY UPDATE OF r) c
JOIN {schema}.routes t ON t.route = c.route;

-- name: claim_runs
-- Give locked runs to a worker, and say so in their logs.
WITH c AS MATERIALIZED (
  SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])
    AS c (run_key, seq, at, epoch, hash)
), taken AS (
  UPDATE {schema}.runs r SET status = 2, worker_key = $6, epoch = c.epoch, seq = c.seq, hash = c.hash,
                             rank = NULL, wake_at = NULL, awaits = NULL, reason = NULL,
                             started_at = coalesce(r.started_at, c.at)
  FROM c WHERE r.run_key = c.run_key
)
INSERT INTO {schema}.events (run_key, seq, at, epoch, kind, codec, payload, hash)
SELECT c.run_key, c.seq, c.at, c.epoch, 2, 0, $7::bytea, c.hash FROM c;

-- name: set_aside
-- Block a run whose row or log is damaged. Nothing is appended to a log that cannot be trusted.
UPDATE {schema}.runs SET status = 7, worker_key = NULL, rank = NULL, wake_at = NULL, reason = $2 WHERE run_key = $1;

-- name: held
-- Epochs of what a worker holds.
SELECT run_key, epoch FROM {schema}.runs WHERE worker_key = $1;

-- name: held_rows
-- What a worker holds.
SELECT * FROM {schema}.run_rows WHERE worker_key = $1;

-- name: held_among
-- Lock some of a worker's runs, and give what a release needs to know of them.
SELECT run_key, epoch, seq, crashes FROM {schema}.runs
WHERE worker_key = $1 AND run_key = ANY ($2::bigint[]) ORDER BY run_key FOR NO KEY UPDATE;

-- name: held_by_dead
-- Lock all runs of a worker but those that somebody has locked: nothing is waited for.
SELECT run_key, epoch, seq, crashes FROM {schema}.runs WHERE worker_key = $1 ORDER BY run_key
FOR NO KEY UPDATE SKIP LOCKED;

-- name: count_held
-- How many runs a worker holds.
SELECT count(*) FROM {schema}.runs WHERE worker_key = $1;

-- name: have_progress
-- Which runs got anywhere after a seq: claims (2), started steps (3), what their bodies reported (13) and emitted (25)
-- before they ended, and reclaims (23) are no progress.
SELECT k.run_key FROM unnest($1::bigint[], $2::bigint[]) k (run_key, seq)
WHERE EXISTS (SELECT FROM {schema}.events e
              WHERE e.run_key = k.run_key AND e.seq > k.seq AND e.kind NOT IN (2, 3, 13, 23, 25));

-- name: release
-- Give runs back: claimable at once (first of all, at rank $7, if they are to be cancelled), still running.
UPDATE {schema}.runs r
SET worker_key = NULL, epoch = k.epoch, seq = k.seq, hash = k.hash, crashes = k.crashes,
    rank = CASE WHEN EXISTS (SELECT FROM {schema}.inbox i WHERE i.run_key = r.run_key AND i.kind = 1) THEN $7
                ELSE r.created_at - r.priority * $6 END
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[]) k (run_key, epoch, seq, hash, crashes)
WHERE r.run_key = k.run_key;

-- name: urgent
-- The first runs of these routes that are to be cancelled by whoever claims them.
SELECT c.run_key FROM unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
  (SELECT r.run_key FROM {schema}.runs r
   WHERE r.route = k.route AND r.rank <= $2 AND r.refused IS NULL AND r.format <= $3
   ORDER BY r.rank, r.run_key LIMIT $4)
  UNION ALL
  (SELECT r.run_key FROM {schema}.refusals f CROSS JOIN LATERAL (
     SELECT r.run_key FROM {schema}.runs r
     WHERE r.route = k.route AND r.refused = f.refusal AND r.rank <= $2 AND r.format <= $3
     ORDER BY r.rank, r.run_key LIMIT $4) r
   LIMIT $4)) c
LIMIT $4;

-- name: overdue
-- Runs that nobody holds and whose deadline has passed; not those that are blocked, or to be cancelled already.
SELECT r.run_key, r.deadline_at FROM {schema}.runs r
WHERE r.deadline_at <= $1 AND r.deadline_at IS NOT NULL AND r.ended_at IS NULL AND r.worker_key IS NULL
  AND r.status <> 7 AND NOT EXISTS (SELECT FROM {schema}.inbox i WHERE i.run_key = r.run_key AND i.kind = 1)
ORDER BY r.deadline_at LIMIT $2;

-- name: next_due
-- When the earliest waiting run of these routes is due, and whether a suspect of them is claimable.
SELECT (SELECT min(one.wake_at) FROM unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
          SELECT r.wake_at FROM {schema}.runs r
          WHERE r.route = k.route AND r.wake_at IS NOT NULL AND r.rank IS NULL ORDER BY r.wake_at LIMIT 1) one),
       EXISTS (SELECT FROM unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
                 SELECT FROM {schema}.runs r
                 WHERE r.route = k.route AND r.rank IS NOT NULL AND r.crashes >= 2 LIMIT 1) one);
