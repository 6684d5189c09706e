-- The whole schema. Instants are integer microseconds UTC; payloads are bytes. Application id: "PERD".
PRAGMA application_id = 0x50455244;
PRAGMA user_version = 1;

CREATE TABLE store_info (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
-- The least writer format this store accepts: older writers refuse to open it.
INSERT INTO store_info (name, value) VALUES ('least_format', '1');
-- Which store this is: drawn by lot, and never used again.
INSERT INTO store_info (name, value) VALUES ('id', lower(hex(randomblob(16))));

-- What a worker must be able to execute, as one number: claims ask by it.
CREATE TABLE routes (
  route     INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL,
  queue     TEXT NOT NULL,
  workflow  TEXT NOT NULL,
  version   TEXT NOT NULL,
  UNIQUE (namespace, workflow, version, queue)
) STRICT;

-- The queues that are defined or paused. One that is not here has no limits.
CREATE TABLE queues (
  queue_key     INTEGER PRIMARY KEY,
  namespace     TEXT    NOT NULL,
  name          TEXT    NOT NULL,
  concurrency   INTEGER,                    -- runs under way at once, everywhere, in one worker, with one partition key
  per_worker    INTEGER,
  per_partition INTEGER,
  starts        INTEGER,                    -- runs that may begin in a period (µs)
  period        INTEGER,
  paused        INTEGER NOT NULL DEFAULT 0,
  turn          TEXT    NOT NULL DEFAULT '', -- the partition key that was served last
  build         TEXT    NOT NULL DEFAULT '', -- of whoever defined it, and when that was opened
  since         INTEGER NOT NULL DEFAULT 0,
  UNIQUE (namespace, name)
) STRICT;

-- The runs that have begun within the period of a queue's rate.
CREATE TABLE queue_starts (
  queue_key INTEGER NOT NULL, at INTEGER NOT NULL, run_key INTEGER NOT NULL, PRIMARY KEY (queue_key, at, run_key)
) STRICT, WITHOUT ROWID;

-- Builds that have refused runs, as one number for each set of them: a sorted JSON list of builds.
CREATE TABLE refusals (refusal INTEGER PRIMARY KEY, builds TEXT NOT NULL UNIQUE) STRICT;

-- One row a run: the fold of its log, kept for claiming and listing, written only when the state changes.
-- AUTOINCREMENT, so that the key of a purged run is never given again.
CREATE TABLE runs (
  run_key     INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace   TEXT    NOT NULL,
  run_id      TEXT    NOT NULL,
  uid         BLOB    NOT NULL,
  route       INTEGER NOT NULL REFERENCES routes,
  status      INTEGER NOT NULL,
  epoch       INTEGER NOT NULL DEFAULT 0,
  worker_key  INTEGER,                      -- who holds it
  seq         INTEGER NOT NULL,             -- of the last event at the last change of state
  hash        BLOB    NOT NULL,             -- likewise
  inbox       INTEGER NOT NULL DEFAULT 0,   -- inbox rows ever received
  crashes     INTEGER NOT NULL DEFAULT 0,   -- crashes of its holders in a row without progress
  refused     INTEGER REFERENCES refusals,  -- by which builds: they do not claim it
  rank        INTEGER,                      -- place in the order of claiming; set only while claimable
  wake_at     INTEGER,                      -- set only while it waits for a time
  awaits      TEXT,                         -- names of the signals that wake it
  undo        TEXT,                         -- keys of the compensations that are registered: a JSON list
  deadline_at INTEGER,
  priority    INTEGER NOT NULL DEFAULT 0,
  partition   TEXT,
  parent_key  INTEGER,
  idem        TEXT,                         -- idempotency key
  paused      INTEGER NOT NULL DEFAULT 0,   -- whether a pause is asked for
  reason      TEXT,
  meta        BLOB,
  codec       INTEGER NOT NULL DEFAULT 0,   -- of the input
  format      INTEGER NOT NULL DEFAULT 1,   -- least format that can execute it
  created_at  INTEGER NOT NULL,
  started_at  INTEGER,                      -- of its first claim
  ended_at    INTEGER,
  -- The first word of what has failed (9), blocked (7) or put off (5) it: an exception's name, or an error's code.
  error       TEXT AS (CASE WHEN status IN (5, 7, 9)
                            THEN substr(reason, 1, min(instr(substr(reason, 1, 200) || ':', ':'),
                                                       instr(substr(reason, 1, 200) || ' ', ' ')) - 1) END),
  UNIQUE (namespace, run_id)
) STRICT;
CREATE INDEX runs_ready   ON runs (route, rank, run_key) WHERE rank IS NOT NULL AND refused IS NULL;
CREATE INDEX runs_refused ON runs (route, refused, rank, run_key) WHERE rank IS NOT NULL AND refused IS NOT NULL;
CREATE INDEX runs_suspect ON runs (route, rank, run_key) WHERE rank IS NOT NULL AND crashes >= 2;
CREATE INDEX runs_due     ON runs (route, wake_at)       WHERE wake_at IS NOT NULL AND rank IS NULL;
CREATE INDEX runs_begun   ON runs (route, rank, run_key)
  WHERE rank IS NOT NULL AND refused IS NULL AND started_at IS NOT NULL;
CREATE INDEX runs_parted  ON runs (route, partition, rank, run_key)
  WHERE rank IS NOT NULL AND refused IS NULL AND partition IS NOT NULL;
-- With what the limits of queues are counted by.
CREATE INDEX runs_held    ON runs (worker_key, run_key, route, partition) WHERE worker_key IS NOT NULL;
CREATE INDEX runs_listed  ON runs (route, status, created_at);
CREATE INDEX runs_error   ON runs (route, error, created_at) WHERE error IS NOT NULL;
CREATE INDEX runs_child   ON runs (parent_key, created_at) WHERE parent_key IS NOT NULL;
CREATE INDEX runs_overdue ON runs (deadline_at)          WHERE deadline_at IS NOT NULL AND ended_at IS NULL;
-- With what the latencies of runs are told by.
CREATE INDEX runs_ended   ON runs (route, status, ended_at, run_key, created_at, started_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX runs_idem ON runs (namespace, idem)  WHERE idem IS NOT NULL;

-- Runs that were purged, so that their ids and idempotency keys are not used again. Whatever else is left of one is found by
-- its run_key.
CREATE TABLE tombstones (
  namespace TEXT    NOT NULL,
  run_id    TEXT    NOT NULL,
  run_key   INTEGER,
  idem      TEXT,
  route     INTEGER NOT NULL,
  status    INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at  INTEGER NOT NULL,
  purged_at INTEGER NOT NULL,
  rest      INTEGER NOT NULL,             -- 0: nothing else is left; 2: its log and more
  PRIMARY KEY (namespace, run_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tombstones_idem ON tombstones (namespace, idem)         WHERE idem IS NOT NULL;
CREATE INDEX tombstones_rest ON tombstones (rest, purged_at, run_key) WHERE run_key IS NOT NULL;
CREATE UNIQUE INDEX tombstones_run ON tombstones (run_key)          WHERE run_key IS NOT NULL;
CREATE INDEX tombstones_aged ON tombstones (namespace, purged_at)    WHERE rest = 0;

-- Who does what only one has to do, and for how long nobody else may.
CREATE TABLE chores (chore TEXT PRIMARY KEY, holder INTEGER NOT NULL, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- The tags in the meta of runs, for finding runs by them; a run's own are found by its meta.
CREATE TABLE tags (
  name    TEXT    NOT NULL,
  value   TEXT    NOT NULL,
  run_key INTEGER NOT NULL,
  PRIMARY KEY (name, value, run_key)
) STRICT, WITHOUT ROWID;

-- A run as records.RunRow, in the order of its fields.
CREATE VIEW run_rows AS
SELECT r.run_key, r.namespace, r.run_id, r.uid, t.workflow, t.version, t.queue, r.status, r.epoch, r.worker_key,
       r.seq, r.hash, r.inbox, r.crashes, r.wake_at, r.deadline_at, r.priority, r.partition, r.parent_key,
       r.idem, r.reason, r.meta, r.format, r.created_at, r.ended_at, r.undo, r.route
FROM runs r CROSS JOIN routes t ON t.route = r.route;

-- The log: append-only, the truth. A rowid table without further indexes, columns in the order of records.Event.
CREATE TABLE events (
  run_key INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  epoch   INTEGER NOT NULL,
  kind    INTEGER NOT NULL,
  key     TEXT,
  attempt INTEGER,
  took    INTEGER,
  codec   INTEGER NOT NULL,
  payload BLOB,
  args    BLOB,
  hash    BLOB NOT NULL,
  PRIMARY KEY (run_key, seq)
) STRICT;

CREATE TABLE artifacts (hash BLOB PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
CREATE TABLE artifact_uses (
  hash BLOB NOT NULL, run_key INTEGER NOT NULL, PRIMARY KEY (run_key, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_uses_hash ON artifact_uses (hash);

-- News from outside for a run. What an event of the run has consumed is deleted; with a dedup key it is kept as kind 0,
-- without its payload, until the run has completed.
CREATE TABLE inbox (
  inbox_key INTEGER PRIMARY KEY AUTOINCREMENT,
  run_key   INTEGER NOT NULL,
  kind      INTEGER NOT NULL,
  name      TEXT,
  codec     INTEGER NOT NULL DEFAULT 0,
  payload   BLOB,
  sent_at   INTEGER NOT NULL,
  dedup     TEXT,
  author    TEXT                          -- who has sent it by hand
) STRICT;
CREATE INDEX inbox_run ON inbox (run_key, kind, inbox_key);
CREATE UNIQUE INDEX inbox_dedup ON inbox (run_key, name, dedup) WHERE dedup IS NOT NULL;

-- What payloads are encrypted with: each key as a master key has encrypted it, which the store does not have.
CREATE TABLE keys (
  key_id BLOB PRIMARY KEY, master TEXT NOT NULL, wrapped BLOB NOT NULL, created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Recurring runs. A schedule that is removed keeps its row, for the watermark: no occurrence is ever decided twice.
CREATE TABLE schedules (
  schedule_key INTEGER PRIMARY KEY,
  namespace    TEXT    NOT NULL,
  name         TEXT    NOT NULL,
  route        INTEGER NOT NULL REFERENCES routes,
  state        INTEGER NOT NULL,             -- 1: active, 2: paused, 3: removed
  change       INTEGER NOT NULL,             -- rises with every change
  token        BLOB    NOT NULL,             -- of whoever made the last one
  revision     INTEGER NOT NULL,
  build        TEXT    NOT NULL,             -- of whoever defined it, and when that was opened
  since        INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  watermark    INTEGER NOT NULL,             -- occurrences up to here are decided
  next_at      INTEGER,                      -- set only while it fires
  cadence      BLOB    NOT NULL,
  policy       BLOB    NOT NULL,
  origin       BLOB    NOT NULL,
  codec        INTEGER NOT NULL,
  payload      BLOB    NOT NULL,
  waiting      TEXT    NOT NULL,             -- occurrences that wait for earlier runs to end: a JSON list
  active       TEXT    NOT NULL,             -- ids of runs that may not have ended: a JSON list
  recorded     INTEGER NOT NULL,             -- records of occurrences ever made
  fault        TEXT,                         -- why it could not be fired
  UNIQUE (namespace, name)
) STRICT;
CREATE INDEX schedules_due     ON schedules (route, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_waiting ON schedules (route)          WHERE state = 1 AND waiting <> '[]';

-- A schedule as schedules.ScheduleRow, in the order of its fields.
CREATE VIEW schedule_rows AS
SELECT s.schedule_key, s.namespace, s.name, t.workflow, t.version, t.queue, s.state, s.change, s.token, s.revision,
       s.build, s.since, s.created_at, s.watermark, s.next_at, s.cadence, s.policy, s.origin, s.codec, s.payload,
       s.waiting,
       (SELECT json_group_array(r.run_id) FROM json_each(s.active) j
        CROSS JOIN runs r ON r.namespace = s.namespace AND r.run_id = j.value WHERE r.status < 8) AS active,
       s.recorded, s.fault, s.route
FROM schedules s CROSS JOIN routes t ON t.route = s.route;

-- What became of a schedule's latest occurrences; those skipped for one reason share a row.
CREATE TABLE occurrences (
  schedule_key INTEGER NOT NULL,
  number       INTEGER NOT NULL,
  kind         INTEGER NOT NULL,             -- 1: started, 2: skipped, 3: triggered
  first        INTEGER NOT NULL,
  last         INTEGER NOT NULL,
  times        INTEGER NOT NULL,
  at           INTEGER NOT NULL,
  run_id       TEXT,
  reason       TEXT,
  PRIMARY KEY (schedule_key, number)
) STRICT, WITHOUT ROWID;

-- What was done to queues and schedules by hand, the latest of each.
CREATE TABLE deeds (
  deed_key  INTEGER PRIMARY KEY,
  noun      TEXT    NOT NULL,                -- 'queue', 'schedule'
  namespace TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  at        INTEGER NOT NULL,
  what      TEXT    NOT NULL,
  author    TEXT    NOT NULL,
  detail    TEXT    NOT NULL
) STRICT;
CREATE INDEX deeds_of     ON deeds (noun, namespace, name, deed_key);
CREATE INDEX deeds_listed ON deeds (noun, namespace, deed_key);

CREATE TABLE workers (
  worker_key  INTEGER PRIMARY KEY,
  name        TEXT    NOT NULL,
  host        TEXT    NOT NULL,
  pid         INTEGER NOT NULL,
  pid_started INTEGER NOT NULL,
  boot        TEXT    NOT NULL,             -- which boot the clock of lease_until belongs to
  build       TEXT    NOT NULL,
  sidecar     TEXT    NOT NULL,             -- device and inode of the file whose byte it locks
  started_at  INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  beat        INTEGER NOT NULL,
  stopped     INTEGER NOT NULL DEFAULT 0    -- 1: it claims and renews nothing more; 2: it is leaving, and claims nothing more
) STRICT;

-- What each worker claims of its own accord.
CREATE TABLE worker_routes (
  worker_key INTEGER NOT NULL REFERENCES workers ON DELETE CASCADE,
  route      INTEGER NOT NULL REFERENCES routes,
  PRIMARY KEY (worker_key, route)
) STRICT, WITHOUT ROWID;
CREATE INDEX worker_routes_route ON worker_routes (route);
