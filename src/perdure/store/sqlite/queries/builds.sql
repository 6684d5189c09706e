-- name: serve_route
-- Note that a worker serves a route.
INSERT INTO worker_routes (worker_key, route) VALUES (?1, ?2);

-- name: served
-- Which routes each worker serves, of those that neither have stopped nor are about to.
SELECT w.worker_key, t.namespace, t.queue, t.workflow, t.version
FROM workers w CROSS JOIN worker_routes s ON s.worker_key = w.worker_key CROSS JOIN routes t ON t.route = s.route
WHERE w.stopped = 0;

-- name: living_builds
-- Builds of the living workers that serve a route, for the boot whose clock says ?3.
SELECT w.build FROM worker_routes s CROSS JOIN workers w ON w.worker_key = s.worker_key
WHERE s.route = ?1 AND w.stopped = 0 AND w.boot = ?2 AND w.lease_until > ?3;

-- name: living_routes
-- The same for all routes that are served.
SELECT s.route, w.build FROM workers w CROSS JOIN worker_routes s ON s.worker_key = w.worker_key
WHERE w.stopped = 0 AND w.boot = ?1 AND w.lease_until > ?2;

-- name: refusals
-- Every set of builds that has refused something.
SELECT refusal, builds FROM refusals;

-- name: open_refusals
-- The sets of builds that a worker's build is not among: what they have refused, it may claim.
SELECT refusal FROM refusals f WHERE NOT EXISTS (
  SELECT 1 FROM json_each(f.builds) b WHERE b.value = (SELECT build FROM workers WHERE worker_key = ?1));

-- name: intern_refusal
-- Give a set of builds its number, unless it has one.
INSERT INTO refusals (builds) VALUES (?1) ON CONFLICT DO NOTHING;

-- name: find_refusal
-- The number of a set of builds.
SELECT refusal FROM refusals WHERE builds = ?1;

-- name: refuse
-- Note which builds have refused a run.
UPDATE runs SET refused = ?2 WHERE run_key = ?1;

-- name: refused_run
-- What a refusal needs to know of a run.
SELECT r.epoch, r.worker_key IS NOT NULL, r.route, r.crashes, f.builds
FROM runs r LEFT JOIN refusals f ON f.refusal = r.refused WHERE r.run_key = ?1;

-- name: refused_ready
-- The first claimable runs of one route that one set of builds has refused.
SELECT run_key FROM runs WHERE route = ?1 AND refused = ?2 AND rank IS NOT NULL ORDER BY rank, run_key LIMIT ?3;

-- name: find_drift
-- Where a drift stands in a log that was found under an epoch.
SELECT seq FROM events WHERE run_key = ?1 AND kind = 14 AND epoch = ?2 AND payload = ?3;

-- name: last_drift
-- What the last drift found was.
SELECT payload FROM events WHERE run_key = ?1 AND kind = 14 ORDER BY seq DESC LIMIT 1;
