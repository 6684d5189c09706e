-- name: insert_event
-- Append an event; a seq that is taken is refused.
INSERT INTO events (run_key, seq, at, epoch, kind, key, attempt, took, codec, payload, args, hash)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12);

-- name: read_events
-- A run's log after a seq.
SELECT run_key, seq, at, epoch, kind, key, attempt, took, codec, payload, args, hash
FROM events WHERE run_key = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3;

-- name: read_logs
-- The first page of the logs of several runs (a JSON list), in any order.
SELECT e.run_key, e.seq, e.at, e.epoch, e.kind, e.key, e.attempt, e.took, e.codec, e.payload, e.args, e.hash
FROM json_each(?1) j CROSS JOIN events e ON e.run_key = j.value WHERE e.seq <= ?2;

-- name: last_event
-- What the next event of a run continues.
SELECT seq, at, hash FROM events WHERE run_key = ?1 ORDER BY seq DESC LIMIT 1;

-- name: read_marks
-- Seq, epoch and hash of a part of a log: is what was sent there already?
SELECT seq, epoch, hash FROM events WHERE run_key = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq;

-- name: has_progress
-- Whether a run got anywhere after a seq: claims (2), started steps (3), what their bodies reported (13) and emitted (25)
-- before they ended, and reclaims (23) are no progress.
SELECT EXISTS (SELECT 1 FROM events WHERE run_key = ?1 AND seq > ?2 AND kind NOT IN (2, 3, 13, 23, 25));

-- name: keep_artifact
-- Keep an artifact under its hash, once.
INSERT INTO artifacts (hash, size, data) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING;

-- name: use_artifact
-- Note that a run refers to an artifact.
INSERT INTO artifact_uses (hash, run_key) VALUES (?1, ?2) ON CONFLICT DO NOTHING;

-- name: get_artifact
-- An artifact's bytes.
SELECT data FROM artifacts WHERE hash = ?1;
