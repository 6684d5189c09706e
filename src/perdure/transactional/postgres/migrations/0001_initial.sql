CREATE TABLE perdure_steps (
  id bytea PRIMARY KEY,
  run text NOT NULL,
  step text NOT NULL,
  epoch bigint NOT NULL,
  attempt integer NOT NULL,
  at bigint NOT NULL,
  codec smallint NOT NULL DEFAULT 0,
  outcome bytea,
  args bytea,
  seal bytea
);
CREATE INDEX perdure_steps_at ON perdure_steps (at);
CREATE TABLE perdure_steps_schema (version integer NOT NULL);
INSERT INTO perdure_steps_schema VALUES (1);
