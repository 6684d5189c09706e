-- name: tag_runs
-- Note tags of runs.
INSERT INTO {schema}.tags (name, value, run_key)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) ON CONFLICT DO NOTHING;

-- name: untag_run
-- Forget tags of a run.
DELETE FROM {schema}.tags t USING unnest($1::text[], $2::text[]) k (name, value)
WHERE t.name = k.name AND t.value = k.value AND t.run_key = $3;
