-- name: any_claimable
-- Whether a run of these routes (a JSON list) is ready or due: asked first, so that idle workers take no lock.
SELECT EXISTS (SELECT 1 FROM json_each(?1) j CROSS JOIN runs r ON r.route = j.value
               WHERE r.rank IS NOT NULL AND r.refused IS NULL)
    OR EXISTS (SELECT 1 FROM json_each(?1) j CROSS JOIN runs r ON r.route = j.value
               WHERE r.wake_at <= ?2 AND r.rank IS NULL)
    OR EXISTS (SELECT 1 FROM refusals f CROSS JOIN json_each(?1) j
               CROSS JOIN runs r ON r.route = j.value AND r.refused = f.refusal
               WHERE r.rank IS NOT NULL AND NOT EXISTS (
                 SELECT 1 FROM json_each(f.builds) b
                 WHERE b.value = (SELECT build FROM workers WHERE worker_key = ?3)));

-- name: promote_due
-- Make runs of one route whose time has come claimable, earliest first, a bounded number of them.
UPDATE runs SET rank = wake_at - priority * ?4
WHERE run_key IN (SELECT run_key FROM runs WHERE route = ?1 AND wake_at <= ?2 AND rank IS NULL
                  ORDER BY wake_at LIMIT ?3);

-- name: promote_one
-- Make one run claimable if its time has come.
UPDATE runs SET rank = wake_at - priority * ?3 WHERE run_key = ?1 AND wake_at <= ?2 AND rank IS NULL;

-- name: claim_ready
-- The first claimable runs of one route that are no suspects and that nobody has refused.
SELECT rank, run_key, epoch, seq, hash FROM runs
WHERE route = ?1 AND rank IS NOT NULL AND refused IS NULL AND crashes < 2 AND format <= ?3
ORDER BY rank, run_key LIMIT ?2;

-- name: claim_refused
-- The same of those that one set of builds has refused.
SELECT rank, run_key, epoch, seq, hash FROM runs
WHERE route = ?1 AND rank IS NOT NULL AND refused = ?4 AND crashes < 2 AND format <= ?3
ORDER BY rank, run_key LIMIT ?2;

-- name: claim_suspect
-- The first claimable suspect of one route; of refused ones, those of some sets of builds (a JSON list).
SELECT rank, run_key, epoch, seq, hash, partition, started_at IS NULL FROM runs INDEXED BY runs_suspect
WHERE route = ?1 AND rank IS NOT NULL AND crashes >= 2 AND format <= ?2
  AND (refused IS NULL OR refused IN (SELECT value FROM json_each(?3)))
ORDER BY rank, run_key LIMIT 1;

-- name: claim_one
-- One run by key, if it is claimable, of one of the routes and, if refused, by one of the sets of builds (JSON lists).
SELECT rank, run_key, epoch, seq, hash, crashes >= 2, route, partition, started_at IS NULL FROM runs
WHERE run_key = ?1 AND rank IS NOT NULL AND format <= ?3 AND route IN (SELECT value FROM json_each(?2))
  AND (refused IS NULL OR refused IN (SELECT value FROM json_each(?4)));

-- name: holds_suspect
-- Whether a worker holds a suspect.
SELECT EXISTS (SELECT 1 FROM runs WHERE worker_key = ?1 AND crashes >= 2);

-- name: is_working
-- Whether a worker is registered and not stopped.
SELECT EXISTS (SELECT 1 FROM workers WHERE worker_key = ?1 AND stopped = 0);

-- name: signs_of_life
-- Whether a worker has stopped of its own accord, or was about to (then it has not crashed), and its heartbeats.
SELECT stopped <> 0, beat FROM workers WHERE worker_key = ?1;

-- name: claim_runs
-- Give a run to a worker.
UPDATE runs SET status = 2, worker_key = ?2, epoch = ?3, seq = ?4, hash = ?5,
                rank = NULL, wake_at = NULL, awaits = NULL, reason = NULL, started_at = coalesce(started_at, ?6)
WHERE run_key = ?1;

-- name: set_aside
-- Block a run whose row or log is damaged. Nothing is appended to a log that cannot be trusted.
UPDATE runs SET status = 7, worker_key = NULL, rank = NULL, wake_at = NULL, reason = ?2 WHERE run_key = ?1;

-- name: held
-- Epochs of what a worker holds.
SELECT run_key, epoch FROM runs WHERE worker_key = ?1;

-- name: held_in_full
-- What a reclaim needs to know of a worker's runs.
SELECT run_key, epoch, seq, crashes FROM runs WHERE worker_key = ?1 ORDER BY run_key;

-- name: release
-- Give a run back: claimable at once (first of all, at rank ?7, if it is to be cancelled), still running.
UPDATE runs SET worker_key = NULL, epoch = ?2, seq = ?3, hash = ?4, crashes = ?5,
                rank = CASE WHEN EXISTS (SELECT 1 FROM inbox i WHERE i.run_key = ?1 AND i.kind = 1) THEN ?7
                            ELSE created_at - priority * ?6 END
WHERE run_key = ?1;

-- name: urgent
-- The first runs of one route that are to be cancelled by whoever claims them.
SELECT run_key FROM runs
WHERE route = ?1 AND rank <= ?2 AND refused IS NULL AND format <= ?3
ORDER BY rank, run_key LIMIT ?4;

-- name: overdue
-- Runs that nobody holds and whose deadline has passed; not those that are blocked, or to be cancelled already.
SELECT run_key, deadline_at FROM runs r
WHERE deadline_at <= ?1 AND deadline_at IS NOT NULL AND ended_at IS NULL AND worker_key IS NULL AND status <> 7
  AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.run_key = r.run_key AND i.kind = 1)
ORDER BY deadline_at LIMIT ?2;

-- name: urgent_refused
-- The same of those that builds have refused, whichever these are.
SELECT r.run_key FROM refusals f CROSS JOIN runs r ON r.refused = f.refusal
WHERE r.route = ?1 AND r.rank <= ?2 AND r.format <= ?3 LIMIT ?4;

-- name: next_due
-- When the earliest waiting run of these routes (a JSON list) is due, and whether a suspect of them is claimable.
SELECT min((SELECT r.wake_at FROM runs r WHERE r.route = j.value AND r.wake_at IS NOT NULL AND r.rank IS NULL
            ORDER BY r.wake_at LIMIT 1)),
       coalesce(max(EXISTS (SELECT 1 FROM runs r INDEXED BY runs_suspect
                            WHERE r.route = j.value AND r.rank IS NOT NULL AND r.crashes >= 2)), 0)
FROM json_each(?1) j;
