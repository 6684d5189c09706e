-- name: served
-- Which routes each worker serves whose lease is in force.
SELECT w.worker_key, t.namespace, t.queue, t.workflow, t.version
FROM {schema}.workers w JOIN {schema}.worker_routes s ON s.worker_key = w.worker_key
JOIN {schema}.routes t ON t.route = s.route
WHERE w.stopped = 0 AND w.lease_until > (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

-- name: serving
-- Which routes each worker serves, of those that neither have stopped nor are about to.
SELECT w.worker_key, t.namespace, t.queue, t.workflow, t.version
FROM {schema}.workers w JOIN {schema}.worker_routes s ON s.worker_key = w.worker_key
JOIN {schema}.routes t ON t.route = s.route
WHERE w.stopped = 0;

-- name: living_builds
-- Builds of the living workers that serve a route.
SELECT w.build FROM {schema}.worker_routes s JOIN {schema}.workers w ON w.worker_key = s.worker_key
WHERE s.route = $1 AND w.stopped = 0
  AND w.lease_until > (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

-- name: living_routes
-- The same for all routes that are served.
SELECT s.route, w.build FROM {schema}.worker_routes s JOIN {schema}.workers w ON w.worker_key = s.worker_key
WHERE w.stopped = 0 AND w.lease_until > (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

-- name: refusals
-- Every set of builds that has refused something.
SELECT refusal, builds FROM {schema}.refusals;

-- name: intern_refusal
-- Give a set of builds its number, unless it has one.
INSERT INTO {schema}.refusals (builds) VALUES ($1::text[]) ON CONFLICT DO NOTHING;

-- name: find_refusal
-- The number of a set of builds.
SELECT refusal FROM {schema}.refusals WHERE builds = $1::text[];

-- name: refuse
-- Note which builds have refused a run.
UPDATE {schema}.runs SET refused = $2 WHERE run_key = $1;

-- name: refused_runs
-- Lock runs, and give what a refusal needs to know of them; and the instant.
SELECT r.run_key, r.epoch, r.worker_key IS NOT NULL, r.route, r.crashes,
       (SELECT f.builds FROM {schema}.refusals f WHERE f.refusal = r.refused),
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM {schema}.runs r WHERE r.run_key = ANY ($1::bigint[]) ORDER BY r.run_key FOR NO KEY UPDATE OF r;

-- name: refused_ready
-- The first claimable runs of one route that one set of builds has refused.
SELECT run_key FROM {schema}.runs
WHERE route = $1 AND refused = $2 AND rank IS NOT NULL ORDER BY rank, run_key LIMIT $3;

-- name: find_drift
-- Where a drift stands in a log that was found under an epoch.
SELECT seq FROM {schema}.events WHERE run_key = $1 AND kind = 14 AND epoch = $2 AND payload = $3 LIMIT 1;

-- name: last_drift
-- What the last drift found was.
SELECT payload FROM {schema}.events WHERE run_key = $1 AND kind = 14 ORDER BY seq DESC LIMIT 1;
