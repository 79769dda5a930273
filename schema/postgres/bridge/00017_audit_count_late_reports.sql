-- +goose Up
-- Equal refused calls of one minute share a row: how many there were, and
-- whether they named other targets than the one in the row.
ALTER TABLE audit_log ADD COLUMN count bigint NOT NULL DEFAULT 1;
ALTER TABLE audit_log ADD COLUMN other_targets boolean NOT NULL DEFAULT false;

-- Which late reports of a run have their event already: a bit for each of
-- STARTED (1), SUCCESS (2) and FAILED (4); NULL = none. NULL costs a row no byte.
ALTER TABLE schedule_runs ADD COLUMN late_reports integer;

-- +goose Down
ALTER TABLE schedule_runs DROP COLUMN late_reports;
ALTER TABLE audit_log DROP COLUMN other_targets;
ALTER TABLE audit_log DROP COLUMN count;
