-- name: look_at_schema
-- Whether the schema $1 has our table of facts, and whether it has any relation at all.
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = $1 AND c.relname = 'store_info' AND c.relkind = 'r'),
       EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1);

-- name: has_schema
-- Whether there is a schema of this name.
SELECT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = $1);

-- name: create_schema
-- Make the schema.
CREATE SCHEMA {schema};

-- name: store_info
-- Facts about the store, by name.
SELECT name, value FROM {schema}.store_info;

-- name: store_id
-- Which store this is, and whose database it is in: a copy of it is in another.
SELECT i.value, d.oid::bigint FROM {schema}.store_info i, pg_catalog.pg_database d
WHERE i.name = 'id' AND d.datname = current_database();

-- name: is_open_to
-- Whether this session can read and write a store's tables in the schema $1, if there are any. By the catalogue, so that
-- nothing fails where there are none.
SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = $1 AND c.relname = 'store_info' AND has_schema_privilege(n.oid, 'USAGE'))
   AND NOT EXISTS (
     SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p (privilege)
     WHERE n.nspname = $1 AND (c.relkind = 'r' OR c.relkind = 'v' AND p.privilege = 'SELECT')
       AND NOT has_table_privilege(c.oid, p.privilege));

-- name: set_version
-- Note the version of the schema.
INSERT INTO {schema}.store_info (name, value) VALUES ('version', $1)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: lock_migration
-- One at a time brings the schema up to date, however long that takes; the lock goes with the transaction.
SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true),
       set_config('idle_in_transaction_session_timeout', '0', true), pg_advisory_xact_lock($1);

-- name: health
-- Server, database and role; what durability rests on; and whether the role may make or change the schema $1.
SELECT current_setting('server_version'), current_database(), current_user, current_setting('fsync'),
       (SELECT s.reset_val FROM pg_settings s WHERE s.name = 'synchronous_commit'),
       coalesce((SELECT pg_has_role(n.nspowner, 'USAGE') FROM pg_namespace n WHERE n.nspname = $1),
                has_database_privilege(current_database(), 'CREATE'));

-- name: lacking_privileges
-- What the role needs and does not have on tables of the schema $1.
SELECT DISTINCT p.privilege
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p (privilege)
WHERE n.nspname = $1 AND c.relkind = 'r' AND NOT has_table_privilege(c.oid, p.privilege);
