-- name: touch
-- Nothing, so that the transaction begins.
SELECT 1;

-- name: relay_alone
-- Whether nobody else sends what is in this table; until this transaction ends nobody else does. The number is drawn by
-- lot, the other one is the table's.
SELECT pg_try_advisory_xact_lock(1906520843, c.oid::bigint::bit(32)::integer)
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname = 'perdure_outbox' AND (n.nspname = :schema OR (:schema = '' AND n.nspname = ANY (current_schemas(false))));

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
