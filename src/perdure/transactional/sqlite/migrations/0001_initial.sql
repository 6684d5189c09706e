CREATE TABLE perdure_steps (
  id BLOB PRIMARY KEY,
  run TEXT NOT NULL,
  step TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  at INTEGER NOT NULL,
  codec INTEGER NOT NULL DEFAULT 0,
  outcome BLOB,
  args BLOB,
  seal BLOB
) STRICT;
CREATE INDEX perdure_steps_at ON perdure_steps (at);
CREATE TABLE perdure_steps_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO perdure_steps_schema VALUES (1);
