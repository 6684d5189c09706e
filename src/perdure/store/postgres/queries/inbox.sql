-- name: ask_cancel
-- Tell a run's holder to cancel it, unless that is waiting there already.
INSERT INTO {schema}.inbox (run_key, kind, codec, payload, sent_at)
SELECT $1, 1, 0, $2, $3 WHERE NOT EXISTS (SELECT FROM {schema}.inbox WHERE run_key = $1 AND kind = 1);

-- name: find_cancel
-- The cancel request that waits in a run's inbox.
SELECT payload FROM {schema}.inbox WHERE run_key = $1 AND kind = 1 ORDER BY inbox_key LIMIT 1;

-- name: ask_pause
-- Tell a run's holder to pause it, likewise.
INSERT INTO {schema}.inbox (run_key, kind, codec, payload, sent_at)
SELECT $1, 7, 0, $2, $3 WHERE NOT EXISTS (SELECT FROM {schema}.inbox WHERE run_key = $1 AND kind = 7);

-- name: count_inbox
-- Note that something came in.
UPDATE {schema}.runs SET inbox = inbox + 1 WHERE run_key = $1;

-- name: hurry
-- Make a run that nobody holds the first to be claimed.
UPDATE {schema}.runs SET rank = $2 WHERE run_key = $1;

-- name: find_keys
-- The keys of the runs that have these ids, by their place in what was asked for.
SELECT n.number, found.run_key
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS n (namespace, run_id, number)
CROSS JOIN LATERAL (
  SELECT (SELECT r.run_key FROM {schema}.runs r WHERE r.namespace = n.namespace AND r.run_id = n.run_id) AS run_key
) found
WHERE found.run_key IS NOT NULL;

-- name: lock_runs
-- Lock runs, and the parents of those of $2, in the order of their keys.
SELECT run_key FROM {schema}.runs
WHERE run_key = ANY ($1::bigint[] || ARRAY(SELECT p.parent_key FROM {schema}.runs p WHERE p.run_key = ANY ($2::bigint[])))
ORDER BY run_key FOR NO KEY UPDATE;

-- name: hearers
-- Lock runs, and give what decides what becomes of news for them: their status, whether they are neither held nor
-- claimable, what they await; and what they are called. Those that were purged (11) are not there.
SELECT run_key, status, worker_key IS NULL AND rank IS NULL, awaits, namespace, run_id FROM {schema}.runs
WHERE run_key = ANY ($1::bigint[]) AND (status < 11) IS TRUE ORDER BY run_key FOR NO KEY UPDATE;

-- name: posted
-- Which news is there or was, by run, name and dedup key.
SELECT i.run_key, i.name, i.dedup FROM unnest($1::bigint[], $2::text[], $3::text[]) k (run_key, name, dedup)
CROSS JOIN LATERAL (
  SELECT * FROM {schema}.inbox o WHERE o.run_key = k.run_key AND o.name = k.name AND o.dedup = k.dedup
) i;

-- name: post
-- Put news into inboxes, in order, and note in the runs' rows how much came in; make those claimable that waited for it.
WITH news AS (
  INSERT INTO {schema}.inbox (run_key, kind, name, codec, payload, dedup, author, sent_at)
  SELECT n.run_key, n.kind, n.name, n.codec, n.payload, n.dedup, n.author, $7
  FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[], $6::text[], $12::text[])
    WITH ORDINALITY AS n (run_key, kind, name, codec, payload, dedup, author, number)
  ORDER BY n.number
)
UPDATE {schema}.runs r
SET inbox = r.inbox + k.many, rank = CASE WHEN k.wakes > 0 THEN coalesce(r.rank, $7 - r.priority * $8) ELSE r.rank END
FROM unnest($9::bigint[], $10::bigint[], $11::bigint[]) k (run_key, many, wakes)
WHERE r.run_key = k.run_key;

-- name: sign
-- The instant ($1, or now), and the number of this transaction.
SELECT coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), pg_current_xact_id()::text::bigint;

-- name: is_committed
-- Whether a transaction was committed; a server that has never given its number has not.
SELECT $1::bigint < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
   AND coalesce(pg_xact_status($1::bigint::text::xid8) = 'committed', false);

-- name: take_inbox
-- Consume inbox rows by key (hence IS TRUE) and say how many; those with a dedup key are kept, to know the same again.
WITH kept AS (
  UPDATE {schema}.inbox i SET kind = 0, payload = NULL FROM unnest($1::bigint[], $2::bigint[]) k (inbox_key, run_key)
  WHERE i.inbox_key = k.inbox_key AND (i.run_key = k.run_key) IS TRUE AND i.dedup IS NOT NULL AND i.kind <> 0
  RETURNING i.inbox_key
), gone AS (
  DELETE FROM {schema}.inbox i USING unnest($1::bigint[], $2::bigint[]) k (inbox_key, run_key)
  WHERE i.inbox_key = k.inbox_key AND (i.run_key = k.run_key) IS TRUE AND i.dedup IS NULL RETURNING i.inbox_key
)
SELECT (SELECT count(*) FROM kept) + (SELECT count(*) FROM gone);

-- name: empty_inbox
-- Drop what completed runs have not read, and what they have.
DELETE FROM {schema}.inbox WHERE run_key = ANY ($1::bigint[]);

-- name: drop_requests
-- Drop what was asked of runs that have ended otherwise; the rest stays for when they are resumed.
DELETE FROM {schema}.inbox WHERE run_key = ANY ($1::bigint[]) AND kind = ANY (ARRAY[1, 7]);

-- name: drop_pauses
-- Drop what is done, or was overtaken by a resume.
DELETE FROM {schema}.inbox WHERE run_key = $1 AND kind = 7;

-- name: move_inbox
-- Give all of a run's inbox to another run, and note how much came in with it.
WITH moved AS (
  UPDATE {schema}.inbox SET run_key = $2 WHERE run_key = $1 RETURNING inbox_key
)
UPDATE {schema}.runs r SET inbox = r.inbox + m.many FROM (SELECT count(*) AS many FROM moved) m
WHERE r.run_key = $2 AND m.many > 0;

-- name: move_uses
-- Note which of the artifacts that a run ($1) refers to the inbox of another one refers to.
INSERT INTO {schema}.artifact_uses (hash, run_key)
SELECT u.hash, $2 FROM (SELECT DISTINCT i.payload FROM {schema}.inbox i WHERE i.run_key = $2) i
CROSS JOIN LATERAL (SELECT * FROM {schema}.artifact_uses o WHERE o.run_key = $1 AND o.hash = i.payload) u
ON CONFLICT DO NOTHING;

-- name: unread
-- Inbox rows of the runs a worker holds, in the order they came, with each run's counter.
SELECT r.inbox, i.inbox_key, i.run_key, i.kind, i.name, i.codec, i.payload, i.sent_at, i.author
FROM {schema}.runs r CROSS JOIN LATERAL (SELECT * FROM {schema}.inbox i WHERE i.run_key = r.run_key AND i.kind > 0) i
WHERE r.worker_key = $1 AND r.inbox > 0 ORDER BY r.run_key, i.inbox_key;
