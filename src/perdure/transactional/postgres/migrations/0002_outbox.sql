CREATE TABLE perdure_outbox (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  store text NOT NULL,
  namespace text NOT NULL,
  kind smallint NOT NULL,
  run text NOT NULL,
  at bigint NOT NULL,
  body bytea NOT NULL,
  payload bytea NOT NULL,
  seal bytea NOT NULL,
  code text,
  reason text
);
CREATE INDEX perdure_outbox_due ON perdure_outbox (store, id) WHERE code IS NULL;
