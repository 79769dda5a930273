-- +goose Up
-- Dead entries, of which there are few, are listed and counted for each consumer.
CREATE INDEX inbox_dead ON inbox (sid, seq) WHERE state = 5;

-- +goose Down
DROP INDEX inbox_dead;
