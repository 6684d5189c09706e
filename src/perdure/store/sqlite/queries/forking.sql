-- name: fork_run
-- Insert a run like another one, or nothing if its id is taken; nobody can claim it before it is complete.
INSERT INTO runs (namespace, run_id, uid, route, status, seq, hash, priority, partition, meta, codec, format, created_at)
SELECT namespace, ?2, ?3, route, ?4, 0, x'', priority, partition, meta, codec, format, ?5 FROM runs r
WHERE run_key = ?1 AND NOT EXISTS (SELECT 1 FROM tombstones b WHERE b.namespace = r.namespace AND b.run_id = ?2)
ON CONFLICT DO NOTHING RETURNING run_key;

-- name: complete_fork
-- Make a fork claimable, now that its log is there.
UPDATE runs SET epoch = ?2, seq = ?3, hash = ?4, created_at = ?5, rank = ?5 - priority * ?6 WHERE run_key = ?1;
