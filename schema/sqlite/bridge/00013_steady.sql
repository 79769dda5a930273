-- +goose Up
-- What stands ahead on time, half a million rows in a stream, is found by when it
-- is due and by its schedule's history. A plan would put each row on another page
-- of this index, and its claim dirty that page again.
DROP INDEX schedule_runs_planned;
CREATE INDEX schedule_runs_planned ON schedule_runs (schedule_id, fire_at)
    WHERE status = 'PLANNED' AND (trigger <> 'schedule' OR judged_at IS NOT NULL OR waiting_since IS NOT NULL OR fire_at <> run_at);
-- In the order of plans: what is due at the same instant is not sorted for each.
DROP INDEX schedules_plan_at;
CREATE INDEX schedules_plan_at ON schedules (plan_at, schedule_id) WHERE plan_at IS NOT NULL;

-- +goose Down
DROP INDEX schedules_plan_at;
CREATE INDEX schedules_plan_at ON schedules (plan_at) WHERE plan_at IS NOT NULL;
DROP INDEX schedule_runs_planned;
CREATE INDEX schedule_runs_planned ON schedule_runs (schedule_id, fire_at) WHERE status = 'PLANNED';
