-- +goose Up
-- What an older term or a lost answer left behind lies on both sides of what is
-- in flight, which a pass need not read.
DROP INDEX schedule_runs_launching;
CREATE INDEX schedule_runs_launching ON schedule_runs (epoch, claimed_until) WHERE lower(status) = 'launching';

-- +goose Down
DROP INDEX schedule_runs_launching;
CREATE INDEX schedule_runs_launching ON schedule_runs (claimed_until) WHERE lower(status) = 'launching';
