-- +goose Up
-- The owner of a run is the text before the last slash of its overlap key: an
-- owner id can contain a slash, an overlap_key cannot.
DROP INDEX schedule_runs_turns;
CREATE INDEX schedule_runs_turns ON schedule_runs ((left(overlap_key, -1 - length(split_part(overlap_key, '/', -1)))),
    ((trigger IN ('catchup','backfill'))::integer * 1000000 - priority), fire_at, run_at, idempotency_key)
    WHERE lower(status) = 'planned' AND waiting_since IS NULL;

-- +goose Down
DROP INDEX schedule_runs_turns;
CREATE INDEX schedule_runs_turns ON schedule_runs ((split_part(overlap_key, '/', 1)),
    ((trigger IN ('catchup','backfill'))::integer * 1000000 - priority), fire_at, run_at, idempotency_key)
    WHERE lower(status) = 'planned' AND waiting_since IS NULL;
