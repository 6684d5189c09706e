-- name: put
-- Write an entry, in whoever's transaction this is.
INSERT INTO perdure_outbox (store, namespace, kind, run, at, body, payload, seal)
VALUES (:store, :namespace, :kind, :run, :at, :body, :payload, :seal);

-- name: due
-- The first entries for a store that are to be sent, in the order in which they were written.
SELECT id, kind, run, body, payload, seal FROM perdure_outbox
WHERE store = :store AND code IS NULL ORDER BY id LIMIT :limit;

-- name: sent
-- Delete an entry.
DELETE FROM perdure_outbox WHERE id = :id;

-- name: set_aside
-- Say why an entry cannot be sent; it is left out from now on.
UPDATE perdure_outbox SET code = :code, reason = :reason WHERE id = :id;

-- name: stuck
-- The entries that were set aside, as Stuck.
SELECT id, namespace, kind, run, at, code, reason FROM perdure_outbox WHERE code IS NOT NULL ORDER BY id;

-- name: retry
-- Let an entry that was set aside be sent again.
UPDATE perdure_outbox SET code = NULL, reason = NULL WHERE id = :id AND code IS NOT NULL RETURNING id;

-- name: discard
-- Delete an entry that was set aside.
DELETE FROM perdure_outbox WHERE id = :id AND code IS NOT NULL RETURNING id;
