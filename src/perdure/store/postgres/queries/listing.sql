-- part: narrowed
-- What else may be asked of runs r ($6 to $16): each holds where it is given. CASE: the planner takes it for true of every
-- other run, and sees no index in it.
CASE WHEN ($7::text IS NULL OR (r.run_id >= $7 AND r.run_id < $8::text))
    AND ($9::text IS NULL OR (r.error = $9))
    AND ($10::bigint IS NULL OR (r.created_at >= $10)) AND ($11::bigint IS NULL OR (r.created_at < $11))
    AND ($12::bigint IS NULL OR (r.ended_at >= $12)) AND ($13::bigint IS NULL OR (r.ended_at < $13))
    AND ($14::bigint IS NULL OR (r.parent_key = $14))
    AND (r.status = ANY ($6::bigint[])) AND (r.route = ANY ($5::bigint[]))
    AND ($15::text[] IS NULL OR (
          SELECT bool_and((SELECT true FROM {schema}.tags o
                           WHERE o.name = w.name AND o.value = w.value AND o.run_key = r.run_key) IS TRUE)
          FROM unnest($15::text[], $16::text[]) w (name, value))) THEN true ELSE false END

-- part: by_creation
-- Runs of some routes and statuses, newest first, after a place: instant, key, route and status of each.
SELECT one.at, one.run_key, one.route, one.status
FROM unnest($5::bigint[]) k (route) CROSS JOIN unnest($6::bigint[]) s (status) CROSS JOIN LATERAL (
  SELECT r.created_at AS at, r.run_key, r.route, r.status FROM {schema}.runs r
  WHERE r.route = k.route AND r.status = s.status AND (r.created_at, r.run_key) < ($1, $2) AND r.created_at >= $3
    AND {narrowed}
  ORDER BY r.created_at DESC, r.run_key DESC LIMIT $4) one
ORDER BY one.at DESC, one.run_key DESC LIMIT $4

-- part: by_end
-- The same, latest ended first.
SELECT one.at, one.run_key, one.route, one.status
FROM unnest($5::bigint[]) k (route) CROSS JOIN unnest($6::bigint[]) s (status) CROSS JOIN LATERAL (
  SELECT r.ended_at AS at, r.run_key, r.route, r.status FROM {schema}.runs r
  WHERE r.route = k.route AND r.status = s.status AND (r.ended_at, r.run_key) < ($1, $2) AND r.ended_at >= $3
    AND {narrowed}
  ORDER BY r.ended_at DESC, r.run_key DESC LIMIT $4) one
ORDER BY one.at DESC, one.run_key DESC LIMIT $4

-- part: by_error
-- The same of one error, newest first.
SELECT one.at, one.run_key, one.route, one.status
FROM unnest($5::bigint[]) k (route) CROSS JOIN LATERAL (
  SELECT r.created_at AS at, r.run_key, r.route, r.status FROM {schema}.runs r
  WHERE r.route = k.route AND r.error = $9 AND (r.created_at, r.run_key) < ($1, $2) AND r.created_at >= $3
    AND {narrowed}
  ORDER BY r.created_at DESC, r.run_key DESC LIMIT $4) one
ORDER BY one.at DESC, one.run_key DESC LIMIT $4

-- part: by_parent
-- The same of one parent.
SELECT r.created_at AS at, r.run_key, r.route, r.status FROM {schema}.runs r
WHERE r.parent_key = $14 AND (r.created_at, r.run_key) < ($1, $2) AND r.created_at >= $3
    AND {narrowed}
ORDER BY r.created_at DESC, r.run_key DESC LIMIT $4

-- part: of_tag
-- The same of those that have one tag ($18 and $19), where these are few; by end, if $17 says so.
SELECT one.* FROM (SELECT run_key FROM {schema}.tags WHERE name = $18 AND value = $19) t CROSS JOIN LATERAL (
  SELECT CASE WHEN $17::bigint = 1 THEN r.ended_at ELSE r.created_at END AS at, r.run_key, r.route, r.status
  FROM {schema}.runs r WHERE r.run_key = t.run_key AND {narrowed} LIMIT 1) one
WHERE (one.at, one.run_key) < ($1, $2) AND one.at >= $3
ORDER BY one.at DESC, one.run_key DESC LIMIT $4

-- part: of_prefix
-- The same of those of a namespace whose ids begin alike.
SELECT one.* FROM (
  SELECT CASE WHEN $17::bigint = 1 THEN r.ended_at ELSE r.created_at END AS at, r.run_key, r.route, r.status
  FROM {schema}.runs r WHERE r.namespace = $18 AND r.run_id >= $7 AND r.run_id < $8
    AND {narrowed}) one
WHERE (one.at, one.run_key) < ($1, $2) AND one.at >= $3
ORDER BY one.at DESC, one.run_key DESC LIMIT $4

-- part: rows_in_order
-- The rows of what was found, in its order.
SELECT v.* FROM found f CROSS JOIN LATERAL (SELECT * FROM {schema}.run_rows r WHERE r.run_key = f.run_key LIMIT 1) v
ORDER BY f.at DESC, f.run_key DESC

-- name: list_by_creation
-- The rows of runs newest first.
WITH found AS MATERIALIZED ({by_creation})
{rows_in_order};

-- name: list_by_end
-- The rows of runs latest ended first.
WITH found AS MATERIALIZED ({by_end})
{rows_in_order};

-- name: list_by_error
-- The rows of runs of one error.
WITH found AS MATERIALIZED ({by_error})
{rows_in_order};

-- name: list_by_parent
-- The rows of runs of one parent.
WITH found AS MATERIALIZED ({by_parent})
{rows_in_order};

-- name: list_of_tag
-- The rows of runs that have one tag.
WITH found AS MATERIALIZED ({of_tag})
{rows_in_order};

-- name: list_of_prefix
-- The rows of runs whose ids begin alike.
WITH found AS MATERIALIZED ({of_prefix})
{rows_in_order};

-- name: count_list_by_creation
-- How many there are of each route and status.
SELECT f.route, f.status, count(*) FROM ({by_creation}) f GROUP BY f.route, f.status;

-- name: count_list_by_end
-- How many there are of each route and status.
SELECT f.route, f.status, count(*) FROM ({by_end}) f GROUP BY f.route, f.status;

-- name: count_list_by_error
-- How many there are of each route and status.
SELECT f.route, f.status, count(*) FROM ({by_error}) f GROUP BY f.route, f.status;

-- name: count_list_by_parent
-- How many there are of each route and status.
SELECT f.route, f.status, count(*) FROM ({by_parent}) f GROUP BY f.route, f.status;

-- name: count_list_of_tag
-- How many there are of each route and status.
SELECT f.route, f.status, count(*) FROM ({of_tag}) f GROUP BY f.route, f.status;

-- name: count_list_of_prefix
-- How many there are of each route and status.
SELECT f.route, f.status, count(*) FROM ({of_prefix}) f GROUP BY f.route, f.status;

-- name: count_by_creation
-- How many runs of some routes and statuses were created between two instants, by route and status.
SELECT k.route, s.status, n.many FROM unnest($1::bigint[]) k (route) CROSS JOIN unnest($2::bigint[]) s (status)
CROSS JOIN LATERAL (
  SELECT count(*) AS many FROM {schema}.runs r
  WHERE r.route = k.route AND r.status = s.status AND r.created_at >= $3 AND r.created_at < $4) n;

-- name: count_by_end
-- The same of runs that ended then.
SELECT k.route, s.status, n.many FROM unnest($1::bigint[]) k (route) CROSS JOIN unnest($2::bigint[]) s (status)
CROSS JOIN LATERAL (
  SELECT count(*) AS many FROM {schema}.runs r
  WHERE r.route = k.route AND r.status = s.status AND r.ended_at >= $3 AND r.ended_at < $4) n;

-- name: count_tag
-- How many runs have a tag, as far as it matters.
SELECT count(*) FROM (SELECT FROM {schema}.tags WHERE name = $1 AND value = $2 ORDER BY run_key LIMIT $3) t;

-- name: count_prefix
-- How many runs of a namespace have ids from one to another one, as far as it matters.
SELECT count(*) FROM (
  SELECT FROM {schema}.runs WHERE namespace = $1 AND run_id >= $2 AND run_id < $3 ORDER BY run_id LIMIT $4) r;

-- name: list_routes
-- The routes of a namespace; of one workflow, version or queue, where it is given.
SELECT route, workflow FROM {schema}.routes
WHERE namespace = $1 AND ($2::text IS NULL OR workflow = $2) AND ($3::text IS NULL OR version = $3)
  AND ($4::text IS NULL OR queue = $4);

-- name: created_in_buckets
-- How many runs of some routes and statuses were created in each bucket ($3: from, $4: until).
WITH kind AS MATERIALIZED (
  SELECT k.route, s.status FROM unnest($1::bigint[]) k (route) CROSS JOIN unnest($2::bigint[]) s (status)
  CROSS JOIN LATERAL (
    SELECT FROM {schema}.runs r
    WHERE r.route = k.route AND r.status = s.status AND r.created_at >= $5 AND r.created_at < $6 LIMIT 1) one)
SELECT b.number - 1, n.many FROM unnest($3::bigint[], $4::bigint[]) WITH ORDINALITY b (since, until, number)
CROSS JOIN kind k CROSS JOIN LATERAL (
  SELECT count(*) AS many FROM {schema}.runs r
  WHERE r.route = k.route AND r.status = k.status AND r.created_at >= b.since AND r.created_at < b.until) n;

-- name: ended_in_buckets
-- How many of each route and status ended in each, and the longest that they took, from creation and from the first claim on.
WITH kind AS MATERIALIZED (
  SELECT k.route, s.status FROM unnest($1::bigint[]) k (route) CROSS JOIN unnest($2::bigint[]) s (status)
  CROSS JOIN LATERAL (
    SELECT FROM {schema}.runs r
    WHERE r.route = k.route AND r.status = s.status AND r.ended_at >= $5 AND r.ended_at < $6 LIMIT 1) one)
SELECT b.number - 1, k.route, k.status, n.many, n.waited, n.taken
FROM unnest($3::bigint[], $4::bigint[]) WITH ORDINALITY b (since, until, number)
CROSS JOIN kind k CROSS JOIN LATERAL (
  SELECT count(*) AS many, coalesce(max(r.ended_at - r.created_at), 0) AS waited,
         coalesce(max(r.ended_at - r.started_at), 0) AS taken
  FROM {schema}.runs r
  WHERE r.route = k.route AND r.status = k.status AND r.ended_at >= b.since AND r.ended_at < b.until) n;

-- name: sample_ended
-- What runs took that ended in a bucket: by bucket, route, status, from, until, and one in how many is looked at.
-- OFFSET: bucket by bucket, by the index, and not as a join that the planner may turn round.
SELECT w.bucket, o.waited, o.taken
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
  w (bucket, route, status, since, until, one_in) CROSS JOIN LATERAL (
  SELECT r.ended_at - r.created_at AS waited, r.ended_at - coalesce(r.started_at, r.created_at) AS taken
  FROM {schema}.runs r
  WHERE r.route = w.route AND r.status = w.status AND r.ended_at >= w.since AND r.ended_at < w.until
    AND ((r.run_key & 4294967295) * 1000003 >> 10) % w.one_in = 0 OFFSET 0) o;
