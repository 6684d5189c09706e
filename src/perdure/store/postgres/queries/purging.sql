-- name: named_routes
-- The routes of a namespace, and their workflows.
SELECT route, workflow FROM {schema}.routes WHERE namespace = $1;

-- name: list_ended
-- Runs of one route and status, in the order in which they ended, and whether a parent that may go on needs them.
SELECT r.run_key, r.ended_at, coalesce((SELECT p.status NOT IN (8, 11) FROM {schema}.runs p WHERE p.run_key = r.parent_key), false)
FROM {schema}.runs r
WHERE r.route = $1 AND r.status = $2 AND (r.ended_at, r.run_key) > ($3, $4) AND r.ended_at < $5
ORDER BY r.ended_at, r.run_key LIMIT $6;

-- name: find_purgeable
-- Lock those of some runs that may still be purged, by status and end, and that nobody else has locked; and give the meta
-- they are tagged by. FOR UPDATE also turns away who only makes sure that a run stays: a fork.
SELECT r.run_key, r.meta FROM {schema}.runs r
WHERE r.run_key = ANY ($1::bigint[]) AND (r.ended_at < $2) IS TRUE AND (r.status = ANY ($3::bigint[])) IS TRUE
  AND (SELECT p.status NOT IN (8, 11) FROM {schema}.runs p WHERE p.run_key = r.parent_key) IS NOT TRUE
ORDER BY r.run_key FOR UPDATE OF r SKIP LOCKED;

-- name: bury_runs
-- Put tombstones (what is left besides: $3) in the places of locked runs. Their rows stay for a while, of no route, so that
-- who was about to create the same finds the id and the key taken.
WITH buried AS (
  INSERT INTO {schema}.tombstones (namespace, run_id, run_key, idem, route, status, created_at, ended_at, purged_at, rest)
  SELECT r.namespace, r.run_id, r.run_key, r.idem, r.route, r.status, r.created_at, r.ended_at, $2, $3
  FROM {schema}.runs r WHERE r.run_key = ANY ($1::bigint[])
)
UPDATE {schema}.runs
SET status = 11, route = 0, parent_key = NULL, ended_at = NULL, deadline_at = NULL, meta = NULL, reason = NULL
WHERE run_key = ANY ($1::bigint[]);

-- name: untag_runs
-- Forget tags of runs.
DELETE FROM {schema}.tags t USING unnest($1::text[], $2::text[], $3::bigint[]) k (name, value, run_key)
WHERE t.name = k.name AND t.value = k.value AND t.run_key = k.run_key;

-- name: list_remains
-- Lock purged runs that have left something ($1 says what), were purged before an instant and are nobody else's work now;
-- those first that were purged first. Gives their keys.
SELECT run_key FROM {schema}.tombstones WHERE rest = $1 AND run_key IS NOT NULL AND purged_at <= $2
ORDER BY purged_at, run_key LIMIT $3 FOR UPDATE SKIP LOCKED;

-- name: collect_events
-- Delete the last events of runs, one run after the other, a bounded number of them.
DELETE FROM {schema}.events WHERE ctid = ANY (ARRAY(
  SELECT e.ctid FROM unnest($1::bigint[]) k (run_key) CROSS JOIN LATERAL (
    SELECT o.ctid FROM {schema}.events o WHERE o.run_key = k.run_key ORDER BY o.seq DESC) e LIMIT $2));

-- name: collect_inbox
-- Delete inbox rows of runs, a bounded number of them.
DELETE FROM {schema}.inbox WHERE inbox_key = ANY (ARRAY(
  SELECT i.inbox_key FROM unnest($1::bigint[]) k (run_key) CROSS JOIN LATERAL (
    SELECT o.inbox_key FROM {schema}.inbox o WHERE o.run_key = k.run_key) i LIMIT $2));

-- name: lock_artifacts
-- Lock artifacts that runs refer to and that nobody else has locked, a bounded number of them; and say how large they are.
SELECT a.hash, a.size FROM {schema}.artifacts a WHERE a.hash = ANY (ARRAY(
  SELECT u.hash FROM unnest($1::bigint[]) k (run_key) CROSS JOIN LATERAL (
    SELECT o.hash FROM {schema}.artifact_uses o WHERE o.run_key = k.run_key) u LIMIT $2))
ORDER BY a.hash FOR UPDATE SKIP LOCKED;

-- name: drop_uses
-- Forget that runs refer to artifacts that are locked, or are not there.
DELETE FROM {schema}.artifact_uses u
WHERE u.run_key = ANY ($1::bigint[])
  AND (u.hash = ANY ($2::bytea[]) OR (SELECT true FROM {schema}.artifacts a WHERE a.hash = u.hash) IS NULL);

-- name: drop_artifacts
-- Delete those of some locked artifacts that nothing refers to.
DELETE FROM {schema}.artifacts a
WHERE a.hash = ANY ($1::bytea[]) AND NOT EXISTS (SELECT FROM {schema}.artifact_uses u WHERE u.hash = a.hash);

-- name: only_rows_left
-- Note of which runs nothing but the row is left, and say so.
UPDATE {schema}.tombstones b SET rest = 1
WHERE b.run_key = ANY ($1::bigint[]) AND (b.rest = 2) IS TRUE
  AND NOT EXISTS (SELECT FROM {schema}.events e WHERE e.run_key = b.run_key)
  AND NOT EXISTS (SELECT FROM {schema}.inbox i WHERE i.run_key = b.run_key)
  AND NOT EXISTS (SELECT FROM {schema}.artifact_uses u WHERE u.run_key = b.run_key)
RETURNING b.run_key;

-- name: delete_rows
-- Delete rows of purged runs that nobody has locked.
DELETE FROM {schema}.runs WHERE run_key = ANY (ARRAY(
  SELECT r.run_key FROM {schema}.runs r WHERE r.run_key = ANY ($1::bigint[]) AND (r.status = 11) IS TRUE
  ORDER BY r.run_key FOR UPDATE SKIP LOCKED))
RETURNING run_key;

-- name: rest_in_peace
-- Note that of purged runs nothing is left but this.
UPDATE {schema}.tombstones SET rest = 0, run_key = NULL WHERE run_key = ANY ($1::bigint[]) AND (rest = $2) IS TRUE;

-- name: get_tombstone
-- What is left of the run that had an id.
SELECT b.namespace, b.run_id, b.idem, t.workflow, b.status, b.ended_at, b.purged_at
FROM {schema}.tombstones b JOIN {schema}.routes t ON t.route = b.route WHERE b.namespace = $1 AND b.run_id = $2;

-- name: find_tombstone
-- What is left of the run that had an idempotency key.
SELECT b.namespace, b.run_id, b.idem, t.workflow, b.status, b.ended_at, b.purged_at
FROM {schema}.tombstones b JOIN {schema}.routes t ON t.route = b.route WHERE b.namespace = $1 AND b.idem = $2;

-- name: purged_of_key
-- The purged run that had an idempotency key, as reuse.Found.
SELECT 0::bigint, run_id, ''::bytea, route, created_at, true, true, NULL::bytea FROM {schema}.tombstones
WHERE namespace = $1 AND idem = $2;

-- name: free_purged_key
-- Let a purged run's idempotency key stand for another one.
UPDATE {schema}.tombstones SET idem = NULL WHERE namespace = $1 AND idem = $2;

-- name: forget_purged
-- Forget runs of a namespace that were purged long ago and have left nothing, a bounded number of them.
DELETE FROM {schema}.tombstones WHERE namespace = $1 AND run_id = ANY (ARRAY(
  SELECT run_id FROM {schema}.tombstones WHERE namespace = $1 AND rest = 0 AND purged_at < $2
  ORDER BY purged_at LIMIT $3 FOR UPDATE SKIP LOCKED));

-- name: elect
-- Give a chore to one of those who would do it, if nobody else has it now; says whether it has been given.
INSERT INTO {schema}.chores AS c (chore, holder, until) VALUES ($1, $2, $3::bigint + $4)
ON CONFLICT (chore) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE c.holder = excluded.holder OR c.until <= $3 OR c.until > $3 + $5
RETURNING holder;
