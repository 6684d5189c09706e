-- name: read_keys
-- All keys that payloads are encrypted with, the oldest first.
SELECT key_id, master, wrapped, created_at FROM keys ORDER BY created_at, key_id;

-- name: add_key
-- Add a key, unless it is there.
INSERT INTO keys (key_id, master, wrapped, created_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- name: rewrap_key
-- Have a key encrypted by another master key, if it is as it was seen, or so already.
UPDATE keys SET master = ?4, wrapped = ?5 WHERE key_id = ?1 AND ((master = ?2 AND wrapped = ?3) OR wrapped = ?5);
