-- +goose Up
-- Equal refused calls of one minute share a row: how many there were, and
-- whether they named other targets than the one in the row.
ALTER TABLE audit_log ADD COLUMN count INTEGER NOT NULL DEFAULT 1;
ALTER TABLE audit_log ADD COLUMN other_targets INTEGER NOT NULL DEFAULT 0;

-- Which late reports of a run have their event already: a bit for each of
-- STARTED (1), SUCCESS (2) and FAILED (4); NULL = none.
ALTER TABLE schedule_runs ADD COLUMN late_reports INTEGER;

-- +goose Down
ALTER TABLE schedule_runs DROP COLUMN late_reports;
ALTER TABLE audit_log DROP COLUMN other_targets;
ALTER TABLE audit_log DROP COLUMN count;
