-- +goose Up
-- The schedules that queues make for bare workflow versions, for retention.
CREATE INDEX schedules_templates ON schedules (updated_at) WHERE deleted_at IS NULL AND managed_by GLOB 'queue:*';

-- +goose Down
DROP INDEX schedules_templates;
