-- The whole schema. Instants are integer microseconds UTC; payloads are bytes; texts sort by their bytes.
CREATE TABLE {schema}.store_info (name text COLLATE "C" PRIMARY KEY, value text NOT NULL);
-- Whose tables these are; the least writer format they accept, and the least version of this schema that a program must
-- know: older ones refuse to open the store. Migrations raise the latter only when they take something away.
INSERT INTO {schema}.store_info (name, value)
VALUES ('application', 'perdure'), ('least_format', '1'), ('least_version', '1');
-- Which store this is: drawn by lot, and never used again.
INSERT INTO {schema}.store_info (name, value) VALUES ('id', gen_random_uuid()::text);

-- What a worker must be able to execute, as one number: claims ask by it.
CREATE TABLE {schema}.routes (
  route     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace text COLLATE "C" NOT NULL,
  queue     text COLLATE "C" NOT NULL,
  workflow  text COLLATE "C" NOT NULL,
  version   text COLLATE "C" NOT NULL,
  UNIQUE (namespace, workflow, version, queue)
);

-- The queues that are defined or paused. One that is not here has no limits.
CREATE TABLE {schema}.queues (
  queue_key     bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace     text     COLLATE "C" NOT NULL,
  name          text     COLLATE "C" NOT NULL,
  concurrency   bigint,                       -- runs under way at once, everywhere, in one worker, with one partition key
  per_worker    bigint,
  per_partition bigint,
  starts        bigint,                       -- runs that may begin in a period (µs)
  period        bigint,
  paused        smallint NOT NULL DEFAULT 0,
  turn          text     COLLATE "C" NOT NULL DEFAULT '', -- the partition key that was served last
  build         text     NOT NULL DEFAULT '', -- of whoever defined it, and when that was opened
  since         bigint   NOT NULL DEFAULT 0,
  UNIQUE (namespace, name)
);

-- Those of them that let not everything through.
CREATE VIEW {schema}.limiting_queues AS
SELECT queue_key, namespace, name, concurrency, per_worker, per_partition, starts, period, paused, turn, build, since
FROM {schema}.queues WHERE paused <> 0 OR coalesce(concurrency, per_worker, per_partition, starts) IS NOT NULL;

-- The runs that have begun within the period of a queue's rate.
CREATE TABLE {schema}.queue_starts (
  queue_key bigint NOT NULL, at bigint NOT NULL, run_key bigint NOT NULL, PRIMARY KEY (queue_key, at, run_key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- Builds that have refused runs, as one number for each set of them, sorted.
CREATE TABLE {schema}.refusals (
  refusal bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  builds  text[] COLLATE "C" NOT NULL UNIQUE
);

-- One row a run: the fold of its log, kept for claiming and listing, written only when the state changes.
-- No foreign key to routes: every new run would lock the row of its route.
CREATE TABLE {schema}.runs (
  run_key     bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace   text     COLLATE "C" NOT NULL,
  run_id      text     COLLATE "C" NOT NULL,
  uid         bytea    NOT NULL,
  route       bigint   NOT NULL,
  status      smallint NOT NULL,
  epoch       bigint   NOT NULL DEFAULT 0,
  worker_key  bigint,                        -- who holds it
  seq         bigint   NOT NULL,             -- of the last event at the last change of state
  hash        bytea    NOT NULL,             -- likewise
  inbox       bigint   NOT NULL DEFAULT 0,   -- inbox rows ever received
  crashes     integer  NOT NULL DEFAULT 0,   -- crashes of its holders in a row without progress
  refused     bigint,                        -- by which builds: they do not claim it
  rank        bigint,                        -- place in the order of claiming; set only while claimable
  wake_at     bigint,                        -- set only while it waits for a time
  awaits      text,                          -- names of the signals that wake it
  undo        text,                          -- keys of the compensations that are registered: a JSON list
  deadline_at bigint,
  priority    integer  NOT NULL DEFAULT 0,
  partition   text     COLLATE "C",
  parent_key  bigint,
  idem        text     COLLATE "C",          -- idempotency key
  paused      smallint NOT NULL DEFAULT 0,   -- whether a pause is asked for
  reason      text,
  meta        bytea,
  codec       smallint NOT NULL DEFAULT 0,   -- of the input
  format      smallint NOT NULL DEFAULT 1,   -- least format that can execute it
  created_at  bigint   NOT NULL,
  started_at  bigint,                        -- of its first claim
  ended_at    bigint,
  -- The first word of what has failed (9), blocked (7) or put off (5) it: an exception's name, or an error's code.
  error       text COLLATE "C" GENERATED ALWAYS AS (
    CASE WHEN status IN (5, 7, 9) THEN split_part(split_part(left(reason, 200), ':', 1), ' ', 1) END) STORED,
  UNIQUE (namespace, run_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX runs_ready   ON {schema}.runs (route, rank, run_key) WHERE rank IS NOT NULL AND refused IS NULL;
CREATE INDEX runs_refused ON {schema}.runs (route, refused, rank, run_key)
  WHERE rank IS NOT NULL AND refused IS NOT NULL;
CREATE INDEX runs_suspect ON {schema}.runs (route, rank, run_key) WHERE rank IS NOT NULL AND crashes >= 2;
CREATE INDEX runs_due     ON {schema}.runs (route, wake_at)       WHERE wake_at IS NOT NULL AND rank IS NULL;
CREATE INDEX runs_held    ON {schema}.runs (worker_key, run_key)  WHERE worker_key IS NOT NULL;
CREATE INDEX runs_listed  ON {schema}.runs (route, status, created_at, run_key);
CREATE INDEX runs_error   ON {schema}.runs (route, error, created_at, run_key) WHERE error IS NOT NULL;
CREATE INDEX runs_child   ON {schema}.runs (parent_key, created_at, run_key) WHERE parent_key IS NOT NULL;
CREATE INDEX runs_overdue ON {schema}.runs (deadline_at)          WHERE deadline_at IS NOT NULL AND ended_at IS NULL;
-- With what the latencies of runs are told by.
CREATE INDEX runs_ended   ON {schema}.runs (route, status, ended_at, run_key) INCLUDE (created_at, started_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX runs_idem ON {schema}.runs (namespace, idem)  WHERE idem IS NOT NULL;

-- Runs that were purged, so that their ids and idempotency keys are not used again. Whatever else is left of one is found by
-- its run_key. Its row, of status 11 and without a route, stays a little longer than the rest.
CREATE TABLE {schema}.tombstones (
  namespace text     COLLATE "C" NOT NULL,
  run_id    text     COLLATE "C" NOT NULL,
  run_key   bigint,
  idem      text     COLLATE "C",
  route     bigint   NOT NULL,
  status    smallint NOT NULL,
  created_at bigint  NOT NULL,
  ended_at  bigint   NOT NULL,
  purged_at bigint   NOT NULL,
  rest      smallint NOT NULL,             -- 0: nothing else is left; 1: its row; 2: its log and more
  PRIMARY KEY (namespace, run_id)
);
CREATE INDEX tombstones_idem ON {schema}.tombstones (namespace, idem)          WHERE idem IS NOT NULL;
CREATE INDEX tombstones_rest ON {schema}.tombstones (rest, purged_at, run_key) WHERE run_key IS NOT NULL;
CREATE UNIQUE INDEX tombstones_run ON {schema}.tombstones (run_key)           WHERE run_key IS NOT NULL;
CREATE INDEX tombstones_aged ON {schema}.tombstones (namespace, purged_at)     WHERE rest = 0;

-- Who does what only one has to do, and for how long nobody else may.
CREATE TABLE {schema}.chores (chore text COLLATE "C" PRIMARY KEY, holder bigint NOT NULL, until bigint NOT NULL)
  WITH (fillfactor = 50);

-- The tags in the meta of runs, for finding runs by them; a run's own are found by its meta.
CREATE TABLE {schema}.tags (
  name    text   COLLATE "C" NOT NULL,
  value   text   COLLATE "C" NOT NULL,
  run_key bigint NOT NULL,
  PRIMARY KEY (name, value, run_key)
);

-- A run as records.RunRow, in the order of its fields.
CREATE VIEW {schema}.run_rows AS
SELECT r.run_key, r.namespace, r.run_id, r.uid, t.workflow, t.version, t.queue, r.status, r.epoch, r.worker_key,
       r.seq, r.hash, r.inbox, r.crashes, r.wake_at, r.deadline_at, r.priority, r.partition, r.parent_key,
       r.idem, r.reason, r.meta, r.format, r.created_at, r.ended_at, r.undo, r.route
FROM {schema}.runs r JOIN {schema}.routes t ON t.route = r.route;

-- The log: append-only, the truth. Columns in the order of records.Event.
CREATE TABLE {schema}.events (
  run_key bigint   NOT NULL,
  seq     bigint   NOT NULL,
  at      bigint   NOT NULL,
  epoch   bigint   NOT NULL,
  kind    smallint NOT NULL,
  key     text     COLLATE "C",
  attempt integer,
  took    bigint,
  codec   smallint NOT NULL,
  payload bytea,
  args    bytea,
  hash    bytea    NOT NULL,
  PRIMARY KEY (run_key, seq)
);

CREATE TABLE {schema}.artifacts (hash bytea PRIMARY KEY, size bigint NOT NULL, data bytea NOT NULL);
CREATE TABLE {schema}.artifact_uses (hash bytea NOT NULL, run_key bigint NOT NULL, PRIMARY KEY (run_key, hash));
CREATE INDEX artifact_uses_hash ON {schema}.artifact_uses (hash);

-- News from outside for a run. What an event of the run has consumed is deleted; with a dedup key it is kept as kind 0,
-- without its payload, until the run has completed.
CREATE TABLE {schema}.inbox (
  inbox_key bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_key   bigint   NOT NULL,
  kind      smallint NOT NULL,
  name      text     COLLATE "C",
  codec     smallint NOT NULL DEFAULT 0,
  payload   bytea,
  sent_at   bigint   NOT NULL,
  dedup     text     COLLATE "C",
  author    text                          -- who has sent it by hand
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX inbox_run ON {schema}.inbox (run_key, kind, inbox_key);
CREATE UNIQUE INDEX inbox_dedup ON {schema}.inbox (run_key, name, dedup) WHERE dedup IS NOT NULL;

-- What payloads are encrypted with: each key as a master key has encrypted it, which the store does not have.
CREATE TABLE {schema}.keys (
  key_id bytea PRIMARY KEY, master text NOT NULL, wrapped bytea NOT NULL, created_at bigint NOT NULL
);

-- Recurring runs. A schedule that is removed keeps its row, for the watermark: no occurrence is ever decided twice.
CREATE TABLE {schema}.schedules (
  schedule_key bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace    text     COLLATE "C" NOT NULL,
  name         text     COLLATE "C" NOT NULL,
  route        bigint   NOT NULL,
  state        smallint NOT NULL,            -- 1: active, 2: paused, 3: removed
  change       bigint   NOT NULL,            -- rises with every change
  token        bytea    NOT NULL,            -- of whoever made the last one
  revision     bigint   NOT NULL,
  build        text     NOT NULL,            -- of whoever defined it, and when that was opened
  since        bigint   NOT NULL,
  created_at   bigint   NOT NULL,
  watermark    bigint   NOT NULL,            -- occurrences up to here are decided
  next_at      bigint,                       -- set only while it fires
  cadence      bytea    NOT NULL,
  policy       bytea    NOT NULL,
  origin       bytea    NOT NULL,
  codec        smallint NOT NULL,
  payload      bytea    NOT NULL,
  waiting      text     NOT NULL,            -- occurrences that wait for earlier runs to end: a JSON list
  active       text     NOT NULL,            -- ids of runs that may not have ended: a JSON list
  recorded     bigint   NOT NULL,            -- records of occurrences ever made
  fault        text,                         -- why it could not be fired
  UNIQUE (namespace, name)
) WITH (fillfactor = 50);
CREATE INDEX schedules_due     ON {schema}.schedules (route, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_waiting ON {schema}.schedules (route)          WHERE state = 1 AND waiting <> '[]';

-- A schedule as schedules.ScheduleRow, in the order of its fields.
CREATE VIEW {schema}.schedule_rows AS
SELECT s.schedule_key, s.namespace, s.name, t.workflow, t.version, t.queue, s.state, s.change, s.token, s.revision,
       s.build, s.since, s.created_at, s.watermark, s.next_at, s.cadence, s.policy, s.origin, s.codec, s.payload,
       s.waiting,
       (SELECT coalesce(json_agg(r.run_id), '[]')::text
        FROM json_array_elements_text(s.active::json) j (run_id) CROSS JOIN LATERAL (
          SELECT o.run_id FROM {schema}.runs o
          WHERE o.namespace = s.namespace AND o.run_id = j.run_id AND o.status < 8 LIMIT 1) r) AS active,
       s.recorded, s.fault, s.route
FROM {schema}.schedules s JOIN {schema}.routes t ON t.route = s.route;

-- What became of a schedule's latest occurrences; those skipped for one reason share a row.
CREATE TABLE {schema}.occurrences (
  schedule_key bigint   NOT NULL,
  number       bigint   NOT NULL,
  kind         smallint NOT NULL,            -- 1: started, 2: skipped, 3: triggered
  first        bigint   NOT NULL,
  last         bigint   NOT NULL,
  times        bigint   NOT NULL,
  at           bigint   NOT NULL,
  run_id       text,
  reason       text,
  PRIMARY KEY (schedule_key, number)
);

-- What was done to queues and schedules by hand, the latest of each.
CREATE TABLE {schema}.deeds (
  deed_key  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  noun      text   COLLATE "C" NOT NULL,     -- 'queue', 'schedule'
  namespace text   COLLATE "C" NOT NULL,
  name      text   COLLATE "C" NOT NULL,
  at        bigint NOT NULL,
  what      text   NOT NULL,
  author    text   NOT NULL,
  detail    text   NOT NULL
);
CREATE INDEX deeds_of     ON {schema}.deeds (noun, namespace, name, deed_key);
CREATE INDEX deeds_listed ON {schema}.deeds (noun, namespace, deed_key);

-- Small and often renewed; no index covers what a renewal writes.
CREATE TABLE {schema}.workers (
  worker_key  bigint   PRIMARY KEY,
  name        text     NOT NULL,
  host        text     NOT NULL,
  pid         integer  NOT NULL,
  pid_started bigint   NOT NULL,
  boot        text     NOT NULL,             -- which start of the server its session is of
  build       text     NOT NULL,
  sidecar     text     NOT NULL,             -- the session that holds its lock; empty: none does
  lock_key    bigint   NOT NULL,             -- the number of that lock
  started_at  bigint   NOT NULL,
  lease_until bigint   NOT NULL,
  beat        bigint   NOT NULL,
  stopped     smallint NOT NULL DEFAULT 0    -- 1: it claims and renews nothing more; 2: it is leaving, and claims nothing more
) WITH (fillfactor = 50);

-- What each worker claims of its own accord.
CREATE TABLE {schema}.worker_routes (
  worker_key bigint NOT NULL REFERENCES {schema}.workers ON DELETE CASCADE,
  route      bigint NOT NULL,
  PRIMARY KEY (worker_key, route)
);
CREATE INDEX worker_routes_route ON {schema}.worker_routes (route);
