-- name: claim
-- Take a step's row, or make it: waits for whoever holds it, then tells what is there.
INSERT INTO perdure_steps AS known (id, run, step, epoch, attempt, at)
VALUES (:id, :run, :step, :epoch, :attempt, :at)
ON CONFLICT (id) DO UPDATE SET epoch = greatest(known.epoch, excluded.epoch)
RETURNING epoch, outcome, args, codec, seal;

-- name: keep
-- Write the outcome, if the row was claimed in this very transaction.
UPDATE perdure_steps SET outcome = :outcome, args = :args, codec = :codec, seal = :seal, attempt = :attempt, at = :at
WHERE id = :id AND outcome IS NULL AND xmin = pg_current_xact_id()::xid
RETURNING epoch;

-- name: bounds
-- How long this transaction may idle, and how long it waits for locks; an empty text leaves a limit as it is.
SELECT CASE WHEN :idle = '' THEN '' ELSE set_config('idle_in_transaction_session_timeout', :idle, true) END,
       CASE WHEN :lock = '' THEN '' ELSE set_config('lock_timeout', :lock, true) END;

-- name: is_there
-- Whether the tables are there; no row if not. By the catalogue itself: to_regclass may remember that they were not.
SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname = :table AND (n.nspname = :schema OR (:schema = '' AND n.nspname = ANY (current_schemas(false))));

-- name: version
-- Which version they have.
SELECT version FROM perdure_steps_schema;

-- name: alone
-- Migrations go one after the other; the number is drawn by lot.
SELECT 1 FROM (SELECT pg_advisory_xact_lock(7316229085114302761)) AS locked;

-- name: set_version
-- Note that a migration is done.
UPDATE perdure_steps_schema SET version = :version;

-- name: forget
-- Delete some rows that are older than an instant (µs).
DELETE FROM perdure_steps WHERE id IN (
  SELECT id FROM perdure_steps WHERE at < :before ORDER BY at LIMIT :limit FOR UPDATE SKIP LOCKED
) RETURNING 1;
