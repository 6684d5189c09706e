-- name: named_routes
-- The routes of a namespace, and their workflows.
SELECT route, workflow FROM routes WHERE namespace = ?1;

-- name: list_ended
-- Runs of one route and status, in the order in which they ended, and whether a parent that may go on needs them.
SELECT r.run_key, r.ended_at,
       r.parent_key IS NOT NULL AND EXISTS (SELECT 1 FROM runs p WHERE p.run_key = r.parent_key AND p.status <> 8)
FROM runs r
WHERE r.route = ?1 AND r.status = ?2 AND (r.ended_at, r.run_key) > (?3, ?4) AND r.ended_at < ?5
ORDER BY r.ended_at, r.run_key LIMIT ?6;

-- name: find_purgeable
-- Those of some runs (a JSON list) that may still be purged, by status (another) and end, and the meta they are tagged by.
SELECT r.run_key, r.meta FROM json_each(?1) j CROSS JOIN runs r ON r.run_key = j.value
WHERE r.ended_at < ?2 AND r.status IN (SELECT value FROM json_each(?3))
  AND (r.parent_key IS NULL OR NOT EXISTS (SELECT 1 FROM runs p WHERE p.run_key = r.parent_key AND p.status <> 8));

-- name: bury_runs
-- Put tombstones (?2: what is left besides) in the places of runs (a JSON list).
INSERT INTO tombstones (namespace, run_id, run_key, idem, route, status, created_at, ended_at, purged_at, rest)
SELECT r.namespace, r.run_id, r.run_key, r.idem, r.route, r.status, r.created_at, r.ended_at, ?3, ?2
FROM json_each(?1) j CROSS JOIN runs r ON r.run_key = j.value;

-- name: delete_runs
-- Delete the rows of runs (a JSON list).
DELETE FROM runs WHERE run_key IN (SELECT value FROM json_each(?1));

-- name: list_remains
-- Keys of purged runs that have left something (?1 says what), those first that were purged first.
SELECT run_key FROM tombstones WHERE rest = ?1 AND run_key IS NOT NULL ORDER BY purged_at, run_key LIMIT ?2;

-- name: collect_events
-- Delete the last events of a run, a bounded number of them.
DELETE FROM events WHERE rowid IN (SELECT rowid FROM events WHERE run_key = ?1 ORDER BY seq DESC LIMIT ?2);

-- name: collect_inbox
-- Delete inbox rows of a run, a bounded number of them.
DELETE FROM inbox WHERE inbox_key IN (SELECT inbox_key FROM inbox WHERE run_key = ?1 LIMIT ?2);

-- name: list_uses
-- Artifacts that a run refers to, and how large they are.
SELECT u.hash, a.size FROM artifact_uses u LEFT JOIN artifacts a ON a.hash = u.hash WHERE u.run_key = ?1 LIMIT ?2;

-- name: drop_use
-- Forget that a run refers to an artifact.
DELETE FROM artifact_uses WHERE run_key = ?1 AND hash = ?2;

-- name: drop_artifact
-- Delete an artifact that nothing refers to.
DELETE FROM artifacts WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM artifact_uses u WHERE u.hash = ?1);

-- name: rest_in_peace
-- Note that of a purged run nothing is left but this.
UPDATE tombstones SET rest = 0, run_key = NULL WHERE run_key = ?1 AND +rest = ?2;

-- name: get_tombstone
-- What is left of the run that had an id.
SELECT b.namespace, b.run_id, b.idem, t.workflow, b.status, b.ended_at, b.purged_at
FROM tombstones b CROSS JOIN routes t ON t.route = b.route WHERE b.namespace = ?1 AND b.run_id = ?2;

-- name: find_tombstone
-- What is left of the run that had an idempotency key.
SELECT b.namespace, b.run_id, b.idem, t.workflow, b.status, b.ended_at, b.purged_at
FROM tombstones b INDEXED BY tombstones_idem CROSS JOIN routes t ON t.route = b.route
WHERE b.namespace = ?1 AND b.idem = ?2;

-- name: purged_of_key
-- The purged run that had an idempotency key, as reuse.Found.
SELECT 0, run_id, x'', route, created_at, 1, 1, NULL FROM tombstones INDEXED BY tombstones_idem
WHERE namespace = ?1 AND idem = ?2;

-- name: free_purged_key
-- Let a purged run's idempotency key stand for another one.
UPDATE tombstones INDEXED BY tombstones_idem SET idem = NULL WHERE namespace = ?1 AND idem = ?2;

-- name: forget_purged
-- Forget runs of a namespace that were purged long ago and have left nothing, a bounded number of them.
DELETE FROM tombstones WHERE (namespace, run_id) IN (
  SELECT namespace, run_id FROM tombstones WHERE namespace = ?1 AND rest = 0 AND purged_at < ?2
  ORDER BY purged_at LIMIT ?3);

-- name: elect
-- Give a chore to one of those who would do it, if nobody else has it now; says whether it has been given.
INSERT INTO chores (chore, holder, until) VALUES (?1, ?2, ?3 + ?4)
ON CONFLICT (chore) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE chores.holder = excluded.holder OR chores.until <= ?3 OR chores.until > ?3 + ?5
RETURNING holder;
