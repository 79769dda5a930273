-- +goose Up
-- A run by the ids that the executor gave it.
CREATE INDEX schedule_runs_run_id ON schedule_runs (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX schedule_runs_trace_id ON schedule_runs (trace_id) WHERE trace_id IS NOT NULL;
-- Lists of what is rare: a ledger of a million rows would be read for one page.
-- status and reason are there to be compared without the row.
CREATE INDEX schedule_runs_ended ON schedule_runs (run_at DESC, idempotency_key DESC, status, reason)
    WHERE status IN ('FAILED','SKIPPED','CANCELLED');
CREATE INDEX schedule_runs_unscheduled ON schedule_runs (run_at DESC, idempotency_key DESC, trigger) WHERE trigger <> 'schedule';
-- The schedules that have runs of a workflow or an owner, deleted ones too.
CREATE INDEX schedule_revisions_workflow ON schedule_revisions (workflow_id, schedule_id);
CREATE INDEX schedule_revisions_user ON schedule_revisions (user_id, schedule_id);

-- +goose Down
DROP INDEX schedule_revisions_user;
DROP INDEX schedule_revisions_workflow;
DROP INDEX schedule_runs_unscheduled;
DROP INDEX schedule_runs_ended;
DROP INDEX schedule_runs_trace_id;
DROP INDEX schedule_runs_run_id;
