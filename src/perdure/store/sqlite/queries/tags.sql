-- name: tag_run
-- Note a tag of a run.
INSERT INTO tags (name, value, run_key) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING;

-- name: untag_run
-- Forget a tag of a run.
DELETE FROM tags WHERE name = ?1 AND value = ?2 AND run_key = ?3;
