-- +goose Up
-- The overlap groups that are listed: those with a schedule of policy coalesce.
CREATE INDEX schedules_coalesce ON schedules ((user_id || '/' || overlap_key) COLLATE "C") WHERE overlap_policy = 'coalesce' AND deleted_at IS NULL;

-- +goose Down
DROP INDEX schedules_coalesce;
