CREATE TABLE perdure_outbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  store TEXT NOT NULL,
  namespace TEXT NOT NULL,
  kind INTEGER NOT NULL,
  run TEXT NOT NULL,
  at INTEGER NOT NULL,
  body BLOB NOT NULL,
  payload BLOB NOT NULL,
  seal BLOB NOT NULL,
  code TEXT,
  reason TEXT
) STRICT;
CREATE INDEX perdure_outbox_due ON perdure_outbox (store, id) WHERE code IS NULL;
