-- name: standing
-- What a run's row says besides records.RunRow.
SELECT r.route, r.rank, r.started_at IS NULL, r.awaits, r.partition,
       (SELECT f.builds FROM refusals f WHERE f.refusal = r.refused)
FROM runs r WHERE r.run_key = ?1;

-- name: routes_beside
-- The routes of a route's queue.
SELECT o.route FROM routes t CROSS JOIN routes o ON o.namespace = t.namespace AND o.queue = t.queue WHERE t.route = ?1;

-- name: count_ahead
-- How many runs of one route come before a place in the order of claiming, counted up to a bound.
SELECT count(*) FROM (
  SELECT 1 FROM runs WHERE route = ?1 AND rank IS NOT NULL AND refused IS NULL AND (rank, run_key) < (?2, ?3) LIMIT ?4);

-- name: held_of_partition
-- How many runs of a route's queue with a partition key are held.
SELECT count(*) FROM routes t CROSS JOIN runs r INDEXED BY runs_held CROSS JOIN routes o
  ON o.route = r.route AND o.namespace = t.namespace AND o.queue = t.queue
WHERE t.route = ?1 AND r.worker_key IS NOT NULL AND r.partition = ?2;

-- name: list_news
-- What lies unread in a run's inbox, without what it says.
SELECT kind, name, sent_at FROM inbox WHERE run_key = ?1 AND kind > 0 ORDER BY kind, inbox_key LIMIT ?2;

-- name: namespaces
-- Every namespace that has ever had a run.
SELECT DISTINCT namespace FROM routes;

-- name: ids_from
-- The first run ids of a namespace from one on.
SELECT run_id FROM runs WHERE namespace = ?1 AND run_id >= ?2 ORDER BY run_id LIMIT ?3;
