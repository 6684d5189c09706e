-- name: get_schedule
-- A schedule by its name, also if it is removed.
SELECT * FROM {schema}.schedule_rows WHERE namespace = $1 AND name = $2;

-- name: list_schedules
-- Schedules of a namespace by name, after the cursor.
SELECT * FROM {schema}.schedule_rows WHERE namespace = $1 AND name > $2 AND state <> 3 ORDER BY name LIMIT $3;

-- name: due_schedules
-- Schedules of these routes that are due, earliest first, after the cursor.
SELECT due.* FROM unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
  SELECT * FROM {schema}.schedule_rows r
  WHERE r.route = k.route AND r.next_at <= coalesce($2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
    AND (r.next_at, r.schedule_key) > ($3, $4)
  ORDER BY r.next_at, r.schedule_key LIMIT $5) due
ORDER BY due.next_at, due.schedule_key LIMIT $5;

-- name: ready_schedules
-- Schedules of these routes with an occurrence that has waited for runs, which have all ended by now.
SELECT r.* FROM unnest($1::bigint[]) k (route)
JOIN {schema}.schedule_rows r ON r.route = k.route AND r.state = 1 AND r.waiting <> '[]'
WHERE r.active = '[]';

-- name: next_firing
-- When the first of these routes is due after an instant; whether any waits for runs, and for none any more.
SELECT (SELECT min(one.next_at) FROM unnest($1::bigint[]) k (route) CROSS JOIN LATERAL (
          SELECT s.next_at FROM {schema}.schedules s WHERE s.route = k.route AND s.next_at > $2
          ORDER BY s.next_at LIMIT 1) one),
       EXISTS (SELECT FROM unnest($1::bigint[]) k (route)
               JOIN {schema}.schedules s ON s.route = k.route AND s.state = 1 AND s.waiting <> '[]'),
       EXISTS (SELECT FROM unnest($1::bigint[]) k (route)
               JOIN {schema}.schedule_rows r ON r.route = k.route AND r.state = 1 AND r.waiting <> '[]'
               WHERE r.active = '[]');

-- name: find_schedule
-- Lock a schedule unless somebody else is changing it: its key, how often it was changed, and by whom last.
SELECT schedule_key, change, token FROM {schema}.schedules WHERE namespace = $1 AND name = $2
FOR NO KEY UPDATE SKIP LOCKED;

-- name: create_schedule
-- Insert a schedule, or nothing if there is one of its name.
INSERT INTO {schema}.schedules (namespace, name, route, state, change, token, revision, build, since, created_at,
                                watermark, next_at, cadence, policy, origin, codec, payload, waiting, active, recorded,
                                fault)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
ON CONFLICT DO NOTHING;

-- name: change_schedule
-- Make a schedule another.
UPDATE {schema}.schedules
SET route = $3, state = $4, change = $5, token = $6, revision = $7, build = $8, since = $9, created_at = $10,
    watermark = $11, next_at = $12, cadence = $13, policy = $14, origin = $15, codec = $16, payload = $17,
    waiting = $18, active = $19, recorded = $20, fault = $21
WHERE namespace = $1 AND name = $2;

-- name: fault_schedule
-- Note why a schedule could not be fired.
UPDATE {schema}.schedules SET fault = $2 WHERE schedule_key = $1 AND state <> 3 AND fault IS DISTINCT FROM $2;

-- name: record_occurrences
-- Note what became of occurrences.
INSERT INTO {schema}.occurrences (schedule_key, number, kind, first, last, times, at, run_id, reason)
SELECT $1, n.* FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                           $8::text[], $9::text[]) n;

-- name: trim_occurrences
-- Forget what became of occurrences long ago.
DELETE FROM {schema}.occurrences WHERE schedule_key = $1 AND number <= $2;

-- name: list_occurrences
-- What became of a schedule's occurrences, latest first.
SELECT kind, first, last, times, at, run_id, reason FROM {schema}.occurrences WHERE schedule_key = $1
ORDER BY number DESC LIMIT $2;
