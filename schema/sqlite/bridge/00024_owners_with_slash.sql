-- +goose Up
-- The owner of a run is the text before the last slash of its overlap key: an
-- owner id can contain a slash, an overlap_key cannot. rtrim removes what is
-- behind that slash, because it removes every other character of the key.
DROP INDEX schedule_runs_turns;
CREATE INDEX schedule_runs_turns ON schedule_runs (substr(overlap_key, 1, length(rtrim(overlap_key, replace(overlap_key, '/', ''))) - 1),
    (trigger IN ('catchup','backfill')) * 1000000 - priority, fire_at, run_at)
    WHERE status = 'PLANNED' AND waiting_since IS NULL;

-- +goose Down
DROP INDEX schedule_runs_turns;
CREATE INDEX schedule_runs_turns ON schedule_runs (substr(overlap_key, 1, instr(overlap_key || '/', '/') - 1),
    (trigger IN ('catchup','backfill')) * 1000000 - priority, fire_at, run_at)
    WHERE status = 'PLANNED' AND waiting_since IS NULL;
