-- name: tag_runs
-- Note tags of runs.
INSERT INTO {schema}.tags (name, value, run_key)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) ON CONFLICT DO NOTHING;

-- name: untag_run
-- Forget tags of a run.
DELETE FROM {schema}.tags t USING unnest($1::text[], $2::text[]) k (name, value)
WHERE t.name = k.name AND t.value = k.value AND t.run_key = $3;

-- name: count_tag
-- How many runs have a tag, as far as it matters.
SELECT count(*) FROM (SELECT FROM {schema}.tags WHERE name = $1 AND value = $2 ORDER BY run_key LIMIT $3) t;

-- name: count_status
-- How many runs have a status, as far as it matters.
SELECT count(*) FROM (SELECT FROM {schema}.runs WHERE status = $1 ORDER BY run_key LIMIT $2) r;

-- name: list_runs_of_tag
-- Runs with one tag and all of others, newest first; of some statuses, routes or one parent if any are given.
-- Looked up one by one: scalar queries are neither joined nor hashed.
SELECT r.*
FROM (SELECT run_key FROM {schema}.tags WHERE name = $6 AND value = $7 AND run_key < $1 ORDER BY run_key DESC) t
CROSS JOIN LATERAL (SELECT * FROM {schema}.run_rows v WHERE v.run_key = t.run_key LIMIT 1) r
WHERE (r.namespace = $2) IS TRUE
  AND ($8::bigint[] IS NULL OR (r.status = ANY ($8::bigint[])) IS TRUE)
  AND ($9::bigint[] IS NULL OR (r.route = ANY ($9::bigint[])) IS TRUE)
  AND ($10::bigint IS NULL OR (r.parent_key = $10) IS TRUE)
  AND (SELECT bool_and((SELECT true FROM {schema}.tags o
                        WHERE o.name = w.name AND o.value = w.value AND o.run_key = r.run_key) IS TRUE)
       FROM unnest($4::text[], $5::text[]) w (name, value))
ORDER BY t.run_key DESC LIMIT $3;

-- name: list_tagged_runs_of_status
-- The same with one status, for tags that more runs have than the status.
SELECT r.* FROM {schema}.run_rows r
WHERE r.status = $6 AND r.run_key < $1 AND (r.namespace = $2) IS TRUE
  AND ($7::bigint[] IS NULL OR (r.route = ANY ($7::bigint[])) IS TRUE)
  AND ($8::bigint IS NULL OR (r.parent_key = $8) IS TRUE)
  AND (SELECT bool_and((SELECT true FROM {schema}.tags o
                        WHERE o.name = w.name AND o.value = w.value AND o.run_key = r.run_key) IS TRUE)
       FROM unnest($4::text[], $5::text[]) w (name, value))
ORDER BY r.run_key DESC LIMIT $3;
