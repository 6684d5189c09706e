-- name: begin
-- Begin to write: IMMEDIATE, since a transaction that reads first and writes later fails without waiting.
BEGIN IMMEDIATE;

-- name: commit
-- End a transaction.
COMMIT;

-- name: rollback
-- Undo a transaction.
ROLLBACK;

-- name: foreign_keys_on
-- References are checked.
PRAGMA foreign_keys = ON;

-- name: trusted_schema_off
-- Functions in a schema that somebody else has changed do not run.
PRAGMA trusted_schema = OFF;

-- name: cell_size_check_on
-- Damage in a page is found when the page is read.
PRAGMA cell_size_check = ON;

-- name: query_only_on
-- The reading connection never writes.
PRAGMA query_only = ON;

-- name: journal_mode
-- The journal mode in force.
PRAGMA journal_mode;

-- name: journal_mode_wal
-- Ask for a write-ahead log; the answer is the mode in force.
PRAGMA journal_mode = WAL;

-- name: synchronous_disk
-- Every commit is synced to disk.
PRAGMA synchronous = FULL;

-- name: synchronous_process
-- Commits survive the process; a power cut may lose the last of them.
PRAGMA synchronous = NORMAL;

-- name: synchronous
-- The mode in force: 2 is FULL, 1 is NORMAL.
PRAGMA synchronous;

-- name: fullfsync_on
-- On macOS a plain fsync leaves data in the drive's cache.
PRAGMA fullfsync = ON;

-- name: application_id
-- Whose file this is.
PRAGMA application_id;

-- name: schema_version
-- How often the schema was changed; 0: the database is empty.
PRAGMA schema_version;

-- name: user_version
-- The version of the schema.
PRAGMA user_version;

-- name: data_version
-- A number that changes when another connection has committed.
PRAGMA data_version;

-- name: least_format
-- The least writer format the store accepts.
SELECT CAST(value AS INTEGER) FROM store_info WHERE name = 'least_format';

-- name: store_id
-- Which store this is.
SELECT value FROM store_info WHERE name = 'id';

-- name: quick_check
-- What is damaged in the file; one row that says "ok" if nothing is.
PRAGMA quick_check(20);

-- name: begin_reading
-- See one state of the database in several statements.
BEGIN DEFERRED;
