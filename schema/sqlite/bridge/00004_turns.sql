-- +goose Up
-- Owner by owner what is due, in the order of claims: what one owner has due is
-- never walked through for the sake of another, or of his own first few.
CREATE INDEX schedule_runs_turns ON schedule_runs (substr(overlap_key, 1, instr(overlap_key || '/', '/') - 1),
    (trigger IN ('catchup','backfill')) * 1000000 - priority, fire_at, run_at, idempotency_key)
    WHERE status = 'PLANNED' AND waiting_since IS NULL;

-- +goose Down
DROP INDEX schedule_runs_turns;
