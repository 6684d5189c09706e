-- name: fence
-- What decides whether one run may be written: its epoch, its inbox, whether it is held, and its last seq.
SELECT run_key, epoch, inbox, worker_key IS NOT NULL,
       (SELECT seq FROM events e WHERE e.run_key = r.run_key ORDER BY seq DESC LIMIT 1)
FROM runs r WHERE run_key = ?1;

-- name: fence_batch
-- The same for many runs (a JSON list) at once.
SELECT r.run_key, r.epoch, r.inbox, r.worker_key IS NOT NULL,
       (SELECT seq FROM events e WHERE e.run_key = r.run_key ORDER BY seq DESC LIMIT 1)
FROM json_each(?1) j CROSS JOIN runs r ON r.run_key = j.value;

-- name: change_state
-- End a run's hold: it waits, is blocked, or has ended. Its holder lived, so no crash is left to count.
UPDATE runs SET status = ?2, seq = coalesce(?3, seq), hash = coalesce(?4, hash), rank = ?5 - priority * ?6,
                wake_at = ?7, reason = ?8, awaits = ?9, ended_at = ?10, worker_key = NULL, crashes = 0,
                undo = CASE WHEN ?10 IS NULL THEN undo END
WHERE run_key = ?1;

-- name: set_undo
-- Note which compensations are registered.
UPDATE runs SET undo = ?2 WHERE run_key = ?1;

-- name: has_undo
-- Whether any are.
SELECT 1 FROM runs WHERE run_key = ?1 AND undo IS NOT NULL;

-- name: end_unheld
-- Change the state of a run that nobody holds, as if its holder did.
UPDATE runs SET status = ?2, epoch = ?3, seq = ?4, hash = ?5, reason = ?6, ended_at = ?7,
                rank = NULL, wake_at = NULL, awaits = NULL, worker_key = NULL,
                undo = CASE WHEN ?7 IS NULL THEN undo END
WHERE run_key = ?1;

-- name: resume_run
-- Make a run claimable again after a person asked for it; a deadline that has passed is one no more.
UPDATE runs SET status = ?2, epoch = ?3, seq = ?4, hash = ?5, rank = ?6 - priority * ?7,
                wake_at = NULL, awaits = NULL, reason = NULL, ended_at = NULL, crashes = 0, paused = 0, refused = NULL,
                deadline_at = CASE WHEN deadline_at > ?6 THEN deadline_at END
WHERE run_key = ?1;

-- name: control
-- What a verb from outside needs to know of a run.
SELECT r.status, r.epoch, r.worker_key IS NOT NULL, r.run_id, r.route, f.builds, r.undo
FROM runs r LEFT JOIN refusals f ON f.refusal = r.refused WHERE r.run_key = ?1;
