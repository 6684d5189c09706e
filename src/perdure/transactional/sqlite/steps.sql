-- name: begin
-- Take the write lock: whoever else wants to write waits.
BEGIN IMMEDIATE;

-- name: commit
-- Make everything since BEGIN stand.
COMMIT;

-- name: rollback
-- Undo everything since BEGIN.
ROLLBACK;

-- name: owner
-- Whose database it is: a Perdure store has a number of its own here.
PRAGMA application_id;

-- name: claim
-- Take a step's row, or make it, and tell what is there.
INSERT INTO perdure_steps AS known (id, run, step, epoch, attempt, at)
VALUES (:id, :run, :step, :epoch, :attempt, :at)
ON CONFLICT (id) DO UPDATE SET epoch = max(known.epoch, excluded.epoch)
RETURNING epoch, outcome, args, codec, seal;

-- name: keep
-- Write the outcome, if there is none.
UPDATE perdure_steps SET outcome = :outcome, args = :args, codec = :codec, seal = :seal, attempt = :attempt, at = :at
WHERE id = :id AND outcome IS NULL
RETURNING epoch;

-- name: is_there
-- Whether the tables are there; no row if not.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :table AND :schema = '';

-- name: version
-- Which version they have.
SELECT version FROM perdure_steps_schema;

-- name: set_version
-- Note that a migration is done.
UPDATE perdure_steps_schema SET version = :version;

-- name: forget
-- Delete some rows that are older than an instant (µs).
DELETE FROM perdure_steps WHERE id IN (SELECT id FROM perdure_steps WHERE at < :before ORDER BY at LIMIT :limit)
RETURNING 1;
