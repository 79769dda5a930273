-- +goose Up
-- Of several partial indexes with one condition the planner, whose statistics
-- lag behind a herd, may take the wrong one: it looked for what is in flight
-- under a key through all that is in flight. So each condition stands in a form
-- of its own, and only its own statements are written in it.
DROP INDEX schedule_runs_launching, schedule_runs_timeout, schedule_runs_cancel, schedule_runs_in_flight;
CREATE INDEX schedule_runs_launching ON schedule_runs (claimed_until) WHERE lower(status) = 'launching';
CREATE INDEX schedule_runs_timeout ON schedule_runs (timeout_at) WHERE lower(status) IN ('launching','enqueued','started');
CREATE INDEX schedule_runs_cancel ON schedule_runs (cancel_requested_at)
    WHERE cancel_requested_at IS NOT NULL AND lower(status) IN ('launching','enqueued','started');
-- The exclusive ones stand in schedule_runs_one_in_flight.
CREATE INDEX schedule_runs_in_flight ON schedule_runs (overlap_key) WHERE NOT exclusive AND status IN ('LAUNCHING','ENQUEUED','STARTED');
-- In the order of claims where nothing is due yet.
DROP INDEX schedule_runs_due;
CREATE INDEX schedule_runs_due ON schedule_runs (fire_at, priority DESC) WHERE status = 'PLANNED' AND waiting_since IS NULL;
-- A claim looks for what is due of a schedule, and not at the minute of slots ahead.
DROP INDEX schedule_runs_planned;
CREATE INDEX schedule_runs_planned ON schedule_runs (schedule_id, fire_at) WHERE status = 'PLANNED';

-- +goose Down
DROP INDEX schedule_runs_planned;
CREATE INDEX schedule_runs_planned ON schedule_runs (schedule_id, run_at) WHERE status = 'PLANNED';
DROP INDEX schedule_runs_due;
CREATE INDEX schedule_runs_due ON schedule_runs (fire_at) WHERE status = 'PLANNED' AND waiting_since IS NULL;
DROP INDEX schedule_runs_launching, schedule_runs_timeout, schedule_runs_cancel, schedule_runs_in_flight;
CREATE INDEX schedule_runs_in_flight ON schedule_runs (overlap_key) WHERE status IN ('LAUNCHING','ENQUEUED','STARTED');
CREATE INDEX schedule_runs_launching ON schedule_runs (claimed_until) WHERE status = 'LAUNCHING';
CREATE INDEX schedule_runs_timeout ON schedule_runs (timeout_at) WHERE status IN ('LAUNCHING','ENQUEUED','STARTED');
CREATE INDEX schedule_runs_cancel ON schedule_runs (cancel_requested_at)
    WHERE cancel_requested_at IS NOT NULL AND status IN ('LAUNCHING','ENQUEUED','STARTED');
