-- name: count_of_status
-- How many runs have a status, counted up to a bound.
SELECT count(*) FROM (SELECT 1 FROM routes k CROSS JOIN runs r ON r.route = k.route WHERE r.status = ?1 LIMIT ?2);

-- name: list_routes_known
-- Routes, as many as are looked at.
SELECT route, namespace, queue, workflow, version FROM routes ORDER BY route LIMIT ?1;

-- name: count_backlog
-- How many runs of a route are claimable, counted up to a bound.
SELECT count(*) FROM (SELECT 1 FROM runs WHERE route = ?1 AND rank IS NOT NULL AND refused IS NULL LIMIT ?2);

-- name: first_ready
-- The run of a route that is to be claimed first.
SELECT run_key FROM runs WHERE route = ?1 AND rank IS NOT NULL AND refused IS NULL ORDER BY rank, run_key LIMIT 1;

-- name: first_due
-- The run of a route that has been due for longest and is not yet claimable.
SELECT run_id, wake_at FROM runs WHERE route = ?1 AND rank IS NULL AND wake_at <= ?2 ORDER BY wake_at LIMIT 1;

-- name: count_due
-- How many there are, counted up to a bound.
SELECT count(*) FROM (SELECT 1 FROM runs WHERE route = ?1 AND rank IS NULL AND wake_at <= ?2 LIMIT ?3);

-- name: latest_blocked
-- The latest blocked runs.
SELECT r.run_key FROM routes k CROSS JOIN runs r ON r.route = k.route WHERE r.status = 7 ORDER BY r.run_key DESC LIMIT ?1;

-- name: suspects_of_route
-- Claimable runs of a route whose workers have died twice or more in a row.
SELECT run_id, crashes FROM runs WHERE route = ?1 AND rank IS NOT NULL AND crashes >= 2 ORDER BY rank, run_key LIMIT ?2;

-- name: longest_of_status
-- Of so many runs of a status, the one with the longest log.
SELECT run_id, seq FROM (
  SELECT r.run_id, r.seq FROM routes k CROSS JOIN runs r ON r.route = k.route WHERE r.status = ?1 LIMIT ?2)
ORDER BY seq DESC LIMIT 1;

-- name: most_unread
-- Of so much news, the run that has the most of it unread: its id, how much, and since when.
SELECT r.run_id, n.many, n.since FROM (
  SELECT i.run_key, count(*) AS many, min(i.sent_at) AS since
  FROM (SELECT run_key, sent_at FROM inbox WHERE kind > 0 ORDER BY inbox_key DESC LIMIT ?1) i
  GROUP BY i.run_key ORDER BY many DESC LIMIT 1) n CROSS JOIN runs r ON r.run_key = n.run_key;

-- name: unused_artifacts
-- How many artifacts nothing refers to, and how large they are together.
SELECT count(*), coalesce(sum(a.size), 0) FROM artifacts a
WHERE NOT EXISTS (SELECT 1 FROM artifact_uses u WHERE u.hash = a.hash);

-- name: held_of_workers
-- How many runs each worker holds.
SELECT worker_key, count(*) FROM runs INDEXED BY runs_held WHERE worker_key IS NOT NULL GROUP BY worker_key;

-- name: list_indexes
-- The names of all indexes.
SELECT name FROM sqlite_schema WHERE type = 'index';

-- name: page_size
-- Bytes of a page.
PRAGMA page_size;

-- name: page_count
-- Pages of the database.
PRAGMA page_count;

-- name: freelist_count
-- Pages that hold nothing.
PRAGMA freelist_count;

-- name: log_state
-- Whether the log is in use, its pages, and how many of them are in the database already; copies nothing.
PRAGMA wal_checkpoint(NOOP);

-- name: source_id
-- Which source SQLite was built of.
SELECT sqlite_source_id();
