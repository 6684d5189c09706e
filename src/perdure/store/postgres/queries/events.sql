-- name: insert_events
-- Append events, given column by column; a seq that is taken is refused.
INSERT INTO {schema}.events (run_key, seq, at, epoch, kind, key, attempt, took, codec, payload, args, hash)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[],
                     $8::bigint[], $9::bigint[], $10::bytea[], $11::bytea[], $12::bytea[]);

-- name: read_events
-- A run's log after a seq.
SELECT run_key, seq, at, epoch, kind, key, attempt, took, codec, payload, args, hash
FROM {schema}.events WHERE run_key = $1 AND seq > $2 ORDER BY seq LIMIT $3;

-- name: read_logs
-- The first page of the logs of several runs, in any order.
SELECT e.run_key, e.seq, e.at, e.epoch, e.kind, e.key, e.attempt, e.took, e.codec, e.payload, e.args, e.hash
FROM unnest($1::bigint[]) k (run_key) CROSS JOIN LATERAL (
  SELECT * FROM {schema}.events e WHERE e.run_key = k.run_key AND e.seq <= $2 ORDER BY e.seq LIMIT $2
) e;

-- name: last_events
-- What the next events of several runs continue.
SELECT e.run_key, e.seq, e.at, e.hash
FROM unnest($1::bigint[]) k (run_key) CROSS JOIN LATERAL (
  SELECT * FROM {schema}.events e WHERE e.run_key = k.run_key ORDER BY e.seq DESC LIMIT 1
) e;

-- name: read_marks
-- Seq, epoch and hash of a part of a log: is what was sent there already?
SELECT seq, epoch, hash FROM {schema}.events WHERE run_key = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq;

-- name: keep_artifacts
-- Keep artifacts under their hashes, each once.
INSERT INTO {schema}.artifacts (hash, size, data)
SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[]) ON CONFLICT DO NOTHING;

-- name: hold_artifacts
-- Lock artifacts, in the order of their hashes, so that nobody deletes them before it is noted that they are used.
SELECT hash FROM {schema}.artifacts WHERE hash = ANY ($1::bytea[]) ORDER BY hash FOR KEY SHARE;

-- name: use_artifacts
-- Note which runs refer to which artifacts.
INSERT INTO {schema}.artifact_uses (hash, run_key)
SELECT * FROM unnest($1::bytea[], $2::bigint[]) ON CONFLICT DO NOTHING;

-- name: get_artifact
-- An artifact's bytes.
SELECT data FROM {schema}.artifacts WHERE hash = $1;
