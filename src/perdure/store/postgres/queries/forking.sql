-- name: fork_run
-- Insert a run like another one, or nothing if its id is taken; nobody can claim it before it is complete.
WITH origin AS MATERIALIZED (SELECT * FROM {schema}.runs WHERE run_key = $1 AND (status < 11) IS TRUE FOR KEY SHARE)
INSERT INTO {schema}.runs (namespace, run_id, uid, route, status, seq, hash, priority, partition, meta, codec, format,
                           created_at)
SELECT o.namespace, $2::text, $3::bytea, o.route, $4::bigint, 0, ''::bytea, o.priority, o.partition, o.meta, o.codec,
       o.format, $5::bigint
FROM origin o
WHERE (SELECT true FROM {schema}.tombstones b WHERE b.namespace = o.namespace AND b.run_id = $2::text) IS NULL
ON CONFLICT DO NOTHING RETURNING run_key;

-- name: complete_fork
-- Make a fork claimable, now that its log is there.
UPDATE {schema}.runs
SET epoch = $2, seq = $3, hash = $4, created_at = $5::bigint, rank = $5::bigint - priority * $6::bigint
WHERE run_key = $1;
