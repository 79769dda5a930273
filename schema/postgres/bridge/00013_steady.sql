-- +goose Up
-- What is being launched is looked through by schedule_runs_launching anyway, so
-- a claim enters one index less, and a run that ends with its launch this one
-- never.
DROP INDEX schedule_runs_timeout;
CREATE INDEX schedule_runs_timeout ON schedule_runs (timeout_at) WHERE lower(status) IN ('enqueued','started');
-- 00012_reclaim.sql has its successor.
DROP INDEX schedule_runs_waiting;

-- +goose Down
CREATE INDEX schedule_runs_waiting ON schedule_runs (overlap_key, fire_at) WHERE status = 'PLANNED' AND waiting_since IS NOT NULL;
DROP INDEX schedule_runs_timeout;
CREATE INDEX schedule_runs_timeout ON schedule_runs (timeout_at) WHERE lower(status) IN ('launching','enqueued','started');
