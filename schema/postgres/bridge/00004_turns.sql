-- +goose Up
-- Owner by owner what is due, in the order of claims: what one owner has due is
-- never walked through for the sake of another, or of his own first few. The
-- status is written so that a statement can mean this index and no other: where
-- statistics lag behind a storm, all partial ones look empty.
CREATE INDEX schedule_runs_turns ON schedule_runs ((split_part(overlap_key, '/', 1)),
    ((trigger IN ('catchup','backfill'))::integer * 1000000 - priority), fire_at, run_at, idempotency_key)
    WHERE lower(status) = 'planned' AND waiting_since IS NULL;

-- +goose Down
DROP INDEX schedule_runs_turns;
