-- +goose Up
-- Runs of deleted schedules that wait in queues count for their owner.
CREATE INDEX schedules_deleted_user ON schedules (user_id) WHERE deleted_at IS NOT NULL;

-- +goose Down
DROP INDEX schedules_deleted_user;
