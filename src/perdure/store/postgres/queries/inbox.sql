-- name: ask_cancel
-- Tell a run's holder to cancel it, unless that is waiting there already.
INSERT INTO {schema}.inbox (run_key, kind, codec, payload, sent_at)
SELECT $1, 1, 0, $2, $3 WHERE NOT EXISTS (SELECT FROM {schema}.inbox WHERE run_key = $1 AND kind = 1);

-- name: find_cancel
-- The cancel request that waits in a run's inbox.
SELECT payload FROM {schema}.inbox WHERE run_key = $1 AND kind = 1 ORDER BY inbox_key LIMIT 1;

-- name: count_inbox
-- Note that something came in.
UPDATE {schema}.runs SET inbox = inbox + 1 WHERE run_key = $1;

-- name: take_inbox
-- Consume inbox rows.
DELETE FROM {schema}.inbox WHERE inbox_key = ANY ($1::bigint[]) AND run_key = $2;

-- name: empty_inbox
-- Drop what ended runs have not read.
DELETE FROM {schema}.inbox WHERE run_key = ANY ($1::bigint[]);

-- name: unread
-- Inbox rows of the runs a worker holds, in the order they came, with each run's counter.
SELECT r.inbox, i.inbox_key, i.run_key, i.kind, i.name, i.codec, i.payload, i.sent_at
FROM {schema}.runs r CROSS JOIN LATERAL (SELECT * FROM {schema}.inbox i WHERE i.run_key = r.run_key) i
WHERE r.worker_key = $1 AND r.inbox > 0 ORDER BY r.run_key, i.inbox_key;
