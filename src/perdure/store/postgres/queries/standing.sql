-- name: standing
-- What a run's row says besides records.RunRow; and how many claimable runs of its queue come before it, counted up to a
-- bound, how many runs of its queue with its partition key are held.
SELECT r.rank IS NOT NULL, r.started_at IS NULL,
       CASE WHEN r.rank IS NULL THEN 0 ELSE (
         SELECT coalesce(sum(c.many), 0)::bigint FROM {schema}.routes o CROSS JOIN LATERAL (
           SELECT count(*) AS many FROM (
             SELECT FROM {schema}.runs a
             WHERE a.route = o.route AND a.rank IS NOT NULL AND a.refused IS NULL
               AND (a.rank, a.run_key) < (r.rank, r.run_key) LIMIT $2) a) c
         WHERE o.namespace = t.namespace AND o.queue = t.queue) END,
       coalesce((SELECT f.builds FROM {schema}.refusals f WHERE f.refusal = r.refused), ARRAY[]::text[]),
       r.awaits,
       CASE WHEN r.partition IS NULL THEN 0 ELSE (
         SELECT count(*) FROM {schema}.runs h JOIN {schema}.routes o ON o.route = h.route
         WHERE h.worker_key IS NOT NULL AND h.partition = r.partition
           AND o.namespace = t.namespace AND o.queue = t.queue) END
FROM {schema}.runs r JOIN {schema}.routes t ON t.route = r.route WHERE r.run_key = $1;

-- name: list_news
-- What lies unread in a run's inbox, without what it says.
SELECT kind, name, sent_at FROM {schema}.inbox WHERE run_key = $1 AND kind > 0 ORDER BY kind, inbox_key LIMIT $2;

-- name: namespaces
-- Every namespace that has ever had a run.
SELECT DISTINCT namespace FROM {schema}.routes;

-- name: ids_from
-- The first run ids of a namespace from one on.
SELECT run_id FROM {schema}.runs WHERE namespace = $1 AND run_id >= $2 ORDER BY run_id LIMIT $3;
