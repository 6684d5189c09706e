-- name: tag_run
-- Note a tag of a run.
INSERT INTO tags (name, value, run_key) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING;

-- name: untag_run
-- Forget a tag of a run.
DELETE FROM tags WHERE name = ?1 AND value = ?2 AND run_key = ?3;

-- name: count_tag
-- How many runs have a tag, as far as it matters.
SELECT count(*) FROM (SELECT 1 FROM tags WHERE name = ?1 AND value = ?2 LIMIT ?3);

-- name: count_status
-- How many runs have a status, as far as it matters.
SELECT count(*) FROM (SELECT 1 FROM runs WHERE status = ?1 LIMIT ?2);

-- name: list_runs_of_tag
-- Runs with one tag and all of others (a JSON list of pairs), newest first; of some statuses, routes or one parent if
-- any are given.
SELECT r.* FROM tags t CROSS JOIN run_rows r ON r.run_key = t.run_key
WHERE t.name = ?5 AND t.value = ?6 AND t.run_key < ?1 AND +r.namespace = ?2
  AND (?7 IS NULL OR r.status IN (SELECT value FROM json_each(?7)))
  AND (?8 IS NULL OR r.route IN (SELECT value FROM json_each(?8)))
  AND (?9 IS NULL OR r.parent_key = ?9)
  AND NOT EXISTS (SELECT 1 FROM json_each(?4) w WHERE NOT EXISTS (
        SELECT 1 FROM tags o WHERE o.name = w.value ->> 0 AND o.value = w.value ->> 1 AND o.run_key = t.run_key))
ORDER BY t.run_key DESC LIMIT ?3;

-- name: list_tagged_runs_of_status
-- The same with one status, for tags that more runs have than the status.
SELECT * FROM run_rows r
WHERE r.status = ?5 AND r.run_key < ?1 AND +r.namespace = ?2
  AND (?6 IS NULL OR r.route IN (SELECT value FROM json_each(?6)))
  AND (?7 IS NULL OR +r.parent_key = ?7)
  AND NOT EXISTS (SELECT 1 FROM json_each(?4) w WHERE NOT EXISTS (
        SELECT 1 FROM tags o WHERE o.name = w.value ->> 0 AND o.value = w.value ->> 1 AND o.run_key = r.run_key))
ORDER BY r.run_key DESC LIMIT ?3;
