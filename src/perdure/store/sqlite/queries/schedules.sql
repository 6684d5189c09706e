-- name: get_schedule
-- A schedule by its name, also if it is removed.
SELECT * FROM schedule_rows WHERE namespace = ?1 AND name = ?2;

-- name: list_schedules
-- Schedules of a namespace by name, after the cursor.
SELECT * FROM schedule_rows WHERE namespace = ?1 AND name > ?2 AND state <> 3 ORDER BY name LIMIT ?3;

-- name: due_schedules
-- Schedules of one route that are due, earliest first, after the cursor.
SELECT * FROM schedule_rows
WHERE route = ?1 AND next_at <= ?2 AND (next_at, schedule_key) > (?3, ?4) ORDER BY next_at, schedule_key LIMIT ?5;

-- name: ready_schedules
-- Schedules of one route with an occurrence that has waited for runs, which have all ended by now.
SELECT * FROM schedule_rows WHERE route = ?1 AND state = 1 AND waiting <> '[]' AND active = '[]';

-- name: next_firing
-- When the first of these routes (a JSON list) is due after an instant; whether any waits for runs, and for none any more.
SELECT (SELECT min((SELECT s.next_at FROM schedules s WHERE s.route = k.value AND s.next_at > ?2
                    ORDER BY s.next_at LIMIT 1)) FROM json_each(?1) k),
       EXISTS (SELECT 1 FROM json_each(?1) k
               CROSS JOIN schedules s ON s.route = k.value AND s.state = 1 AND s.waiting <> '[]'),
       EXISTS (SELECT 1 FROM json_each(?1) k
               CROSS JOIN schedule_rows r ON r.route = k.value AND r.state = 1 AND r.waiting <> '[]'
               WHERE r.active = '[]');

-- name: find_schedule
-- The key of a schedule, how often it was changed, and by whom last.
SELECT schedule_key, change, token FROM schedules WHERE namespace = ?1 AND name = ?2;

-- name: create_schedule
-- Insert a schedule.
INSERT INTO schedules (namespace, name, route, state, change, token, revision, build, since, created_at, watermark,
                       next_at, cadence, policy, origin, codec, payload, waiting, active, recorded, fault)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21);

-- name: change_schedule
-- Make a schedule another.
UPDATE schedules SET route = ?3, state = ?4, change = ?5, token = ?6, revision = ?7, build = ?8, since = ?9,
                     created_at = ?10, watermark = ?11, next_at = ?12, cadence = ?13, policy = ?14, origin = ?15,
                     codec = ?16, payload = ?17, waiting = ?18, active = ?19, recorded = ?20, fault = ?21
WHERE namespace = ?1 AND name = ?2;

-- name: fault_schedule
-- Note why a schedule could not be fired.
UPDATE schedules SET fault = ?2 WHERE schedule_key = ?1 AND state <> 3 AND fault IS NOT ?2;

-- name: record_occurrence
-- Note what became of occurrences.
INSERT INTO occurrences (schedule_key, number, kind, first, last, times, at, run_id, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: trim_occurrences
-- Forget what became of occurrences long ago.
DELETE FROM occurrences WHERE schedule_key = ?1 AND number <= ?2;

-- name: list_occurrences
-- What became of a schedule's occurrences, latest first.
SELECT kind, first, last, times, at, run_id, reason FROM occurrences WHERE schedule_key = ?1
ORDER BY number DESC LIMIT ?2;
