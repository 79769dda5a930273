-- +goose Up
-- The last failed attempts to launch a run, oldest first (schedule.LaunchAttempt),
-- and how many there were in all. NULL: the first attempt succeeded.
ALTER TABLE schedule_runs ADD COLUMN failed_attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedule_runs ADD COLUMN attempt_log TEXT;

-- How many calls of the key may have reached the executor; of no account unless sent.
ALTER TABLE execution_requests ADD COLUMN calls INTEGER NOT NULL DEFAULT 1;

-- How long after its fire time a run may take to be accepted; NULL: LAUNCH_RETRY_FOR_MS.
ALTER TABLE schedules ADD COLUMN launch_timeout_ms INTEGER;

-- +goose Down
ALTER TABLE schedules DROP COLUMN launch_timeout_ms;
ALTER TABLE execution_requests DROP COLUMN calls;
ALTER TABLE schedule_runs DROP COLUMN attempt_log;
ALTER TABLE schedule_runs DROP COLUMN failed_attempts;
