-- +goose Up
-- Rows of one rank and instant follow each other as they were put down, and not by
-- their keys, which are hashes: a plan then puts them on a few pages of this index
-- and not each on its own.
DROP INDEX schedule_runs_turns;
CREATE INDEX schedule_runs_turns ON schedule_runs (substr(overlap_key, 1, instr(overlap_key || '/', '/') - 1),
    (trigger IN ('catchup','backfill')) * 1000000 - priority, fire_at, run_at)
    WHERE status = 'PLANNED' AND waiting_since IS NULL;

-- +goose Down
DROP INDEX schedule_runs_turns;
CREATE INDEX schedule_runs_turns ON schedule_runs (substr(overlap_key, 1, instr(overlap_key || '/', '/') - 1),
    (trigger IN ('catchup','backfill')) * 1000000 - priority, fire_at, run_at, idempotency_key)
    WHERE status = 'PLANNED' AND waiting_since IS NULL;
