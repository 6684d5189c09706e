-- name: record_deed
-- Note what was done to a queue or schedule by hand.
INSERT INTO deeds (noun, namespace, name, at, what, author, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: trim_deeds
-- Forget what was done to it long ago: keep the latest ?4.
DELETE FROM deeds WHERE noun = ?1 AND namespace = ?2 AND name = ?3 AND deed_key <= (
  SELECT deed_key FROM deeds WHERE noun = ?1 AND namespace = ?2 AND name = ?3 ORDER BY deed_key DESC LIMIT 1 OFFSET ?4
);

-- name: list_deeds
-- What was done to a queue or schedule by hand, the latest first.
SELECT at, what, author, detail, name FROM deeds WHERE noun = ?1 AND namespace = ?2 AND name = ?3
ORDER BY deed_key DESC LIMIT ?4;

-- name: list_all_deeds
-- What was done to queues or schedules by hand, the latest first.
SELECT at, what, author, detail, name FROM deeds WHERE noun = ?1 AND namespace = ?2 ORDER BY deed_key DESC LIMIT ?3;
