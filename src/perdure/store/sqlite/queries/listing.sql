-- part: narrowed
-- What else may be asked of runs r (?7 to ?16): each holds where it is given. Written so that no index is chosen by it.
(?7 IS NULL OR (r.run_id >= ?7 AND r.run_id < ?8))
  AND (?9 IS NULL OR +r.error = ?9)
  AND (?10 IS NULL OR r.created_at >= ?10) AND (?11 IS NULL OR r.created_at < ?11)
  AND (?12 IS NULL OR r.ended_at >= ?12) AND (?13 IS NULL OR r.ended_at < ?13)
  AND (?14 IS NULL OR r.parent_key = ?14)
  AND (?15 IS NULL OR +r.status IN (SELECT value FROM json_each(?15)))
  AND (?16 IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(?16) w WHERE NOT EXISTS (
          SELECT 1 FROM tags o WHERE o.name = w.value ->> 0 AND o.value = w.value ->> 1 AND o.run_key = r.run_key)))

-- name: list_by_creation
-- Runs of one route and status, newest first, after a place: instant, key, route and status of each.
SELECT r.created_at, r.run_key, r.route, r.status FROM runs r INDEXED BY runs_listed
WHERE r.route = ?5 AND r.status = ?6 AND (r.created_at, r.run_key) < (?1, ?2) AND r.created_at >= ?3
  AND {narrowed}
ORDER BY r.created_at DESC, r.run_key DESC LIMIT ?4;

-- name: list_by_end
-- The same, latest ended first.
SELECT r.ended_at, r.run_key, r.route, r.status FROM runs r INDEXED BY runs_ended
WHERE r.route = ?5 AND r.status = ?6 AND (r.ended_at, r.run_key) < (?1, ?2) AND r.ended_at >= ?3
  AND {narrowed}
ORDER BY r.ended_at DESC, r.run_key DESC LIMIT ?4;

-- name: list_by_error
-- The same of one route and error, newest first.
SELECT r.created_at, r.run_key, r.route, r.status FROM runs r INDEXED BY runs_error
WHERE r.route = ?5 AND r.error = ?6 AND (r.created_at, r.run_key) < (?1, ?2) AND r.created_at >= ?3
  AND {narrowed}
ORDER BY r.created_at DESC, r.run_key DESC LIMIT ?4;

-- name: list_by_parent
-- The same of one parent and some routes (a JSON list), newest first.
SELECT r.created_at, r.run_key, r.route, r.status FROM runs r INDEXED BY runs_child
WHERE r.parent_key = ?6 AND (r.created_at, r.run_key) < (?1, ?2) AND r.created_at >= ?3
  AND +r.route IN (SELECT value FROM json_each(?5)) AND {narrowed}
ORDER BY r.created_at DESC, r.run_key DESC LIMIT ?4;

-- name: list_of_tag
-- All runs that have one tag (a JSON list: name and value), of some routes; in no order that matters.
SELECT CASE WHEN ?17 THEN r.ended_at ELSE r.created_at END AS at, r.run_key, r.route, r.status
FROM tags t CROSS JOIN runs r ON r.run_key = t.run_key
WHERE t.name = ?6 ->> 0 AND t.value = ?6 ->> 1 AND (at, r.run_key) < (?1, ?2) AND at >= ?3
  AND +r.route IN (SELECT value FROM json_each(?5)) AND {narrowed} LIMIT ?4;

-- name: list_of_prefix
-- The same of those of a namespace whose ids begin alike.
SELECT CASE WHEN ?17 THEN r.ended_at ELSE r.created_at END AS at, r.run_key, r.route, r.status
FROM runs r INDEXED BY sqlite_autoindex_runs_1
WHERE r.namespace = ?6 AND r.run_id >= ?7 AND r.run_id < ?8 AND (at, r.run_key) < (?1, ?2) AND at >= ?3
  AND +r.route IN (SELECT value FROM json_each(?5)) AND {narrowed} LIMIT ?4;

-- name: count_by_creation
-- How many runs of one route and status were created between two instants.
SELECT count(*) FROM runs INDEXED BY runs_listed WHERE route = ?1 AND status = ?2 AND created_at >= ?3 AND created_at < ?4;

-- name: count_by_end
-- How many runs of one route and status ended between two instants.
SELECT count(*) FROM runs INDEXED BY runs_ended WHERE route = ?1 AND status = ?2 AND ended_at >= ?3 AND ended_at < ?4;

-- name: count_list_by_creation
-- How many there are in a list of one route and status, newest first.
SELECT count(*) FROM runs r INDEXED BY runs_listed
WHERE r.route = ?5 AND r.status = ?6 AND (r.created_at, r.run_key) < (?1, ?2) AND r.created_at >= ?3 AND ?4
  AND {narrowed};

-- name: count_list_by_end
-- The same, latest ended first.
SELECT count(*) FROM runs r INDEXED BY runs_ended
WHERE r.route = ?5 AND r.status = ?6 AND (r.ended_at, r.run_key) < (?1, ?2) AND r.ended_at >= ?3 AND ?4
  AND {narrowed};

-- name: count_tag
-- How many runs have a tag, as far as it matters.
SELECT count(*) FROM (SELECT 1 FROM tags WHERE name = ?1 AND value = ?2 LIMIT ?3);

-- name: count_prefix
-- How many runs of a namespace have ids from one to another one, as far as it matters.
SELECT count(*) FROM (SELECT 1 FROM runs WHERE namespace = ?1 AND run_id >= ?2 AND run_id < ?3 LIMIT ?4);

-- name: list_routes
-- The routes of a namespace; of one workflow, version or queue, where it is given.
SELECT route, workflow FROM routes
WHERE namespace = ?1 AND (?2 IS NULL OR workflow = ?2) AND (?3 IS NULL OR version = ?3) AND (?4 IS NULL OR queue = ?4);

-- name: heads_by_creation
-- When the newest run of each of some routes and statuses (JSON lists) was created that is no newer than an instant.
SELECT k.value, j.value, (SELECT max(created_at) FROM runs INDEXED BY runs_listed
                          WHERE route = k.value AND status = j.value AND created_at <= ?3) AS head
FROM json_each(?1) k CROSS JOIN json_each(?2) j WHERE head IS NOT NULL;

-- name: heads_by_end
-- The same of those that ended latest.
SELECT k.value, j.value, (SELECT max(ended_at) FROM runs INDEXED BY runs_ended
                          WHERE route = k.value AND status = j.value AND ended_at <= ?3) AS head
FROM json_each(?1) k CROSS JOIN json_each(?2) j WHERE head IS NOT NULL;

-- name: created_in_buckets
-- How many runs of each of some routes and statuses (a JSON list of pairs) were created in each bucket (likewise: from, to).
SELECT b.key, (SELECT count(*) FROM runs INDEXED BY runs_listed
               WHERE route = p.value ->> 0 AND status = p.value ->> 1
                 AND created_at >= b.value ->> 0 AND created_at < b.value ->> 1)
FROM json_each(?1) p CROSS JOIN json_each(?2) b;

-- name: ended_in_buckets
-- How many ended in each, and the longest that they took, from creation and from the first claim on (a JSON list of three).
SELECT b.key, p.value ->> 0, p.value ->> 1, (
  SELECT json_array(count(*), max(ended_at - created_at), max(ended_at - started_at)) FROM runs INDEXED BY runs_ended
  WHERE route = p.value ->> 0 AND status = p.value ->> 1 AND ended_at >= b.value ->> 0 AND ended_at < b.value ->> 1)
FROM json_each(?1) p CROSS JOIN json_each(?2) b;

-- name: sample_ended
-- What runs took that ended in a bucket: of a JSON list of bucket, route, status, from, to, and one in how many is looked at.
WITH w (bucket, route, status, since, until, one_in) AS MATERIALIZED (
  SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(?1))
SELECT w.bucket, r.ended_at - r.created_at, r.ended_at - coalesce(r.started_at, r.created_at)
FROM w CROSS JOIN runs r INDEXED BY runs_ended
WHERE r.route = w.route AND r.status = w.status AND r.ended_at >= w.since AND r.ended_at < w.until
  AND ((r.run_key & 4294967295) * 1000003 >> 10) % w.one_in = 0;
