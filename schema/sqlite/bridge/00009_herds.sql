-- +goose Up
-- An index costs a slot about 2 µs for each row that is put into it or taken
-- out, a third of what its whole life does. So what is in flight stands in one of
-- these by its overlap key, and LAUNCHING rows are not among those that time out:
-- their own index has what the sweeps ask of them.
DROP INDEX schedule_runs_in_flight;
-- The exclusive ones stand in schedule_runs_one_in_flight.
CREATE INDEX schedule_runs_in_flight ON schedule_runs (overlap_key)
    WHERE NOT exclusive AND (status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED');
DROP INDEX schedule_runs_timeout;
CREATE INDEX schedule_runs_timeout ON schedule_runs (timeout_at) WHERE (status = 'ENQUEUED' OR status = 'STARTED');
-- Whatever is sent again is of another epoch, or its claim has run out.
DROP INDEX schedule_runs_launching;
CREATE INDEX schedule_runs_launching ON schedule_runs (epoch, claimed_until, claimed_at, timeout_at) WHERE status = 'LAUNCHING';
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
DROP INDEX schedule_runs_launching;
CREATE INDEX schedule_runs_launching ON schedule_runs (claimed_until) WHERE status = 'LAUNCHING';
DROP INDEX schedule_runs_timeout;
CREATE INDEX schedule_runs_timeout ON schedule_runs (timeout_at) WHERE (status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED');
DROP INDEX schedule_runs_in_flight;
CREATE INDEX schedule_runs_in_flight ON schedule_runs (overlap_key) WHERE (status = 'LAUNCHING' OR status = 'ENQUEUED' OR status = 'STARTED');
