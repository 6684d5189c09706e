-- name: fence
-- Lock runs in the order of their keys, and give what decides whether they may be written: epoch, inbox, holder.
SELECT run_key, epoch, inbox, worker_key IS NOT NULL FROM {schema}.runs
WHERE run_key = ANY ($1::bigint[]) ORDER BY run_key FOR NO KEY UPDATE;

-- name: last_seqs
-- The last seq of runs that are locked.
SELECT k.run_key, (SELECT e.seq FROM {schema}.events e WHERE e.run_key = k.run_key ORDER BY e.seq DESC LIMIT 1)
FROM unnest($1::bigint[]) k (run_key);

-- name: change_states
-- End the hold of runs: they wait, are blocked, or have ended. Their holder lived, so no crash is left to count.
UPDATE {schema}.runs r
SET status = k.status, seq = coalesce(k.seq, r.seq), hash = coalesce(k.hash, r.hash), rank = k.due - r.priority * $10,
    wake_at = k.wake_at, reason = k.reason, awaits = k.awaits, ended_at = k.ended_at, worker_key = NULL, crashes = 0,
    undo = CASE WHEN k.ended_at IS NULL THEN r.undo END
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::text[], $8::text[],
            $9::bigint[]) k (run_key, status, seq, hash, due, wake_at, reason, awaits, ended_at)
WHERE r.run_key = k.run_key;

-- name: end_unheld
-- Change the state of a run that nobody holds, as if its holder did.
UPDATE {schema}.runs SET status = $2, epoch = $3, seq = $4, hash = $5, reason = $6, ended_at = $7,
                         rank = NULL, wake_at = NULL, awaits = NULL, worker_key = NULL,
                         undo = CASE WHEN $7::bigint IS NULL THEN undo END
WHERE run_key = $1;

-- name: set_undo
-- Note which compensations are registered.
UPDATE {schema}.runs SET undo = $2 WHERE run_key = $1;

-- name: has_undo
-- Whether any are.
SELECT 1 FROM {schema}.runs WHERE run_key = $1 AND undo IS NOT NULL;

-- name: resume_run
-- Make a run claimable again after a person asked for it; a deadline that has passed is one no more.
UPDATE {schema}.runs SET status = $2, epoch = $3, seq = $4, hash = $5, rank = $6 - priority * $7,
                         wake_at = NULL, awaits = NULL, reason = NULL, ended_at = NULL, crashes = 0, paused = 0,
                         refused = NULL, deadline_at = CASE WHEN deadline_at > $6 THEN deadline_at END
WHERE run_key = $1;

-- name: control
-- Lock a run, and give what a verb from outside needs to know of it, and the instant ($2, or now).
SELECT r.status, r.epoch, r.worker_key IS NOT NULL, r.run_id, r.route,
       (SELECT f.builds FROM {schema}.refusals f WHERE f.refusal = r.refused), r.undo,
       coalesce($2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
FROM {schema}.runs r WHERE r.run_key = $1 AND (r.status < 11) IS TRUE FOR NO KEY UPDATE OF r;

-- name: commit_items
-- Write what many runs send, each only if its epoch, inbox and last seq are those it was sent under; says which were.
WITH passed AS MATERIALIZED (
  SELECT i.*, r.inbox
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[],
              $8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::bigint[])
    AS i (run_key, epoch, first_seq, inbox_seen, status, seq, hash, due, wake_at, reason, awaits, ended_at)
  JOIN {schema}.runs r ON r.run_key = i.run_key
  WHERE r.epoch = i.epoch AND r.worker_key IS NOT NULL AND coalesce(i.inbox_seen, r.inbox) = r.inbox
    AND i.first_seq = 1 + (SELECT e.seq FROM {schema}.events e WHERE e.run_key = i.run_key ORDER BY e.seq DESC LIMIT 1)
  ORDER BY r.run_key FOR NO KEY UPDATE OF r
), appended AS (
  INSERT INTO {schema}.events (run_key, seq, at, epoch, kind, key, attempt, took, codec, payload, args, hash)
  SELECT e.* FROM unnest($14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::text[],
                         $20::bigint[], $21::bigint[], $22::bigint[], $23::bytea[], $24::bytea[], $25::bytea[])
    AS e (run_key, seq, at, epoch, kind, key, attempt, took, codec, payload, args, hash)
  -- IS TRUE: looked up by hash, not by a join that was planned for a few rows.
  WHERE (e.run_key IN (SELECT p.run_key FROM passed p)) IS TRUE
), changed AS (
  UPDATE {schema}.runs r
  SET status = p.status, seq = p.seq, hash = p.hash, rank = p.due - r.priority * $13, wake_at = p.wake_at,
      reason = p.reason, awaits = p.awaits, ended_at = p.ended_at, worker_key = NULL, crashes = 0,
      undo = CASE WHEN p.ended_at IS NULL THEN r.undo END
  FROM passed p WHERE p.status IS NOT NULL AND r.run_key = p.run_key
), emptied AS (
  -- What a run that has not completed (8) was sent stays for when it is resumed, but not what was asked of it.
  DELETE FROM {schema}.inbox
  WHERE run_key = ANY (ARRAY(SELECT p.run_key FROM passed p WHERE p.ended_at IS NOT NULL AND p.inbox > 0))
    AND (kind = ANY (ARRAY[1, 7]) OR run_key = ANY (ARRAY(SELECT p.run_key FROM passed p WHERE p.status = 8)))
)
SELECT run_key FROM passed;

-- name: append_items
-- The same where no run's state changes.
WITH passed AS MATERIALIZED (
  SELECT i.run_key FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS i (run_key, epoch, first_seq)
  JOIN {schema}.runs r ON r.run_key = i.run_key
  WHERE r.epoch = i.epoch AND r.worker_key IS NOT NULL
    AND i.first_seq = 1 + (SELECT e.seq FROM {schema}.events e WHERE e.run_key = i.run_key ORDER BY e.seq DESC LIMIT 1)
  ORDER BY r.run_key FOR NO KEY UPDATE OF r
), appended AS (
  INSERT INTO {schema}.events (run_key, seq, at, epoch, kind, key, attempt, took, codec, payload, args, hash)
  SELECT e.* FROM unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[],
                         $10::bigint[], $11::bigint[], $12::bigint[], $13::bytea[], $14::bytea[], $15::bytea[])
    AS e (run_key, seq, at, epoch, kind, key, attempt, took, codec, payload, args, hash)
  WHERE (e.run_key IN (SELECT p.run_key FROM passed p)) IS TRUE
)
SELECT run_key FROM passed;

-- name: append_event
-- The same for one event of one run: a lone run waits for every microsecond of this.
INSERT INTO {schema}.events (run_key, seq, at, epoch, kind, key, attempt, took, codec, payload, args, hash)
SELECT r.run_key, $2, $3::bigint, r.epoch, $5::bigint, $6::text, $7::bigint, $8::bigint, $9::bigint, $10::bytea,
       $11::bytea, $12::bytea
FROM (SELECT l.run_key, l.epoch FROM {schema}.runs l
      WHERE l.run_key = $1 AND l.epoch = $4 AND l.worker_key IS NOT NULL FOR NO KEY UPDATE) r
WHERE $2 = 1 + (SELECT e.seq FROM {schema}.events e WHERE e.run_key = $1 ORDER BY e.seq DESC LIMIT 1)
RETURNING seq;
