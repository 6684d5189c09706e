-- name: ask_cancel
-- Tell a run's holder to cancel it, unless that is waiting there already.
INSERT INTO inbox (run_key, kind, codec, payload, sent_at)
SELECT ?1, 1, 0, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM inbox WHERE run_key = ?1 AND kind = 1);

-- name: find_cancel
-- The cancel request that waits in a run's inbox.
SELECT payload FROM inbox WHERE run_key = ?1 AND kind = 1 ORDER BY inbox_key LIMIT 1;

-- name: ask_pause
-- Tell a run's holder to pause it, likewise.
INSERT INTO inbox (run_key, kind, codec, payload, sent_at)
SELECT ?1, 7, 0, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM inbox WHERE run_key = ?1 AND kind = 7);

-- name: count_inbox
-- Note that something came in.
UPDATE runs SET inbox = inbox + 1 WHERE run_key = ?1;

-- name: wake
-- Note that something came in that the run waits for: it is claimable.
UPDATE runs SET inbox = inbox + 1, rank = ?2 - priority * ?3 WHERE run_key = ?1;

-- name: hurry
-- Make a run that nobody holds the first to be claimed.
UPDATE runs SET rank = ?2 WHERE run_key = ?1;

-- name: hearer
-- What decides what becomes of news for a run: its status, whether it is neither held nor claimable, what it awaits.
SELECT run_key, status, worker_key IS NULL AND rank IS NULL, awaits FROM runs WHERE run_key = ?1;

-- name: hearer_by_id
-- The same of the run that has an id.
SELECT run_key, status, worker_key IS NULL AND rank IS NULL, awaits FROM runs WHERE namespace = ?1 AND run_id = ?2;

-- name: post
-- Put news into a run's inbox, unless the same is there or was.
INSERT INTO inbox (run_key, kind, name, codec, payload, sent_at, dedup, author) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT DO NOTHING;

-- name: is_posted
-- Whether news is there or was.
SELECT EXISTS (SELECT 1 FROM inbox WHERE run_key = ?1 AND name = ?2 AND dedup = ?3);

-- name: take_inbox
-- Consume an inbox row that has no dedup key.
DELETE FROM inbox WHERE inbox_key = ?1 AND run_key = ?2 AND dedup IS NULL;

-- name: keep_taken
-- Consume one that has: it is kept, to know the same when it is sent again.
UPDATE inbox SET kind = 0, payload = NULL WHERE inbox_key = ?1 AND run_key = ?2 AND kind <> 0;

-- name: empty_inbox
-- Drop what a completed run has not read, and what it has.
DELETE FROM inbox WHERE run_key = ?1;

-- name: drop_requests
-- Drop what was asked of a run that has ended otherwise; the rest stays for when it is resumed.
DELETE FROM inbox WHERE run_key = ?1 AND kind IN (1, 7);

-- name: drop_pauses
-- Drop what is done, or was overtaken by a resume.
DELETE FROM inbox WHERE run_key = ?1 AND kind = 7;

-- name: move_inbox
-- Give all of a run's inbox to another run.
UPDATE inbox SET run_key = ?2 WHERE run_key = ?1;

-- name: count_moved
-- Note how much came in with that.
UPDATE runs SET inbox = inbox + ?2 WHERE run_key = ?1;

-- name: move_uses
-- Note which of the artifacts that a run (?1) refers to the inbox of another one refers to.
INSERT INTO artifact_uses (hash, run_key)
SELECT u.hash, ?2 FROM inbox i CROSS JOIN artifact_uses u ON u.run_key = ?1 AND u.hash = i.payload
WHERE i.run_key = ?2 ON CONFLICT DO NOTHING;

-- name: unread
-- Inbox rows of the runs a worker holds, in the order they came, with each run's counter.
SELECT r.inbox, i.inbox_key, i.run_key, i.kind, i.name, i.codec, i.payload, i.sent_at, i.author
FROM runs r CROSS JOIN inbox i ON i.run_key = r.run_key
WHERE r.worker_key = ?1 AND i.kind > 0 ORDER BY r.run_key, i.inbox_key;
