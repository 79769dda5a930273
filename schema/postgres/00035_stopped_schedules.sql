-- +goose Up
-- A begin and a load of open runs ask which schedules of many are paused or deleted. Few
-- are, so few pages answer.
CREATE INDEX schedules_stopped ON schedules (sid) WHERE paused OR deleted_at IS NOT NULL;

-- +goose Down
DROP INDEX schedules_stopped;
