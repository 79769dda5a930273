-- +goose Up
-- What executors return with the ends of runs. A row is written with the end of its run, never
-- changed, and deleted after expires_at.
CREATE TABLE run_results (
    idempotency_key BLOB PRIMARY KEY,
    result          TEXT,    -- JSON as it was sent; NULL: none, or it was refused
    artifacts       TEXT,    -- JSON array of {name, url, bytes, sha256}; NULL: none
    problem         TEXT,    -- why a part was refused; NULL: none was
    expires_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX run_results_expires ON run_results (expires_at);

-- History is final: only a retry by hand (dead becomes false) and the statuses of late reports, each
-- once, are noted in it. A new column of ended_runs is added to the list.
-- +goose StatementBegin
CREATE TRIGGER ended_runs_final BEFORE UPDATE OF run_at, fire_at, created_at, claimed_at, launched_at, started_at, completed_at,
    recorded_at, cancel_requested_at, timeout_at, epoch, sid, nth, revision, priority, max_queued, attempt, deliveries,
    failed_attempts, exit_code, bucket, status, trigger, policy, idempotency_key, overlap_key, reason, cancel_reason,
    retry_of, input, run_id, trace_id, error_code, error_message, attempt_log, log_url, first_sent_at, max_attempts,
    failure_class, queue_no, enqueued_at, snoozes, interruptions, limits, webhook, group_no, group_seq, fair_key,
    worker_id ON ended_runs
BEGIN
    SELECT RAISE(ABORT, 'ended_runs: a run that has ended does not change');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER ended_runs_dead BEFORE UPDATE OF dead ON ended_runs
WHEN NEW.dead IS NOT OLD.dead AND NOT (OLD.dead IS 1 AND NEW.dead IS 0)
BEGIN
    SELECT RAISE(ABORT, 'ended_runs: dead changes only from true to false');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER ended_runs_late BEFORE UPDATE OF late_reports ON ended_runs
WHEN NEW.late_reports IS NULL AND OLD.late_reports IS NOT NULL OR NEW.late_reports & OLD.late_reports <> OLD.late_reports
BEGIN
    SELECT RAISE(ABORT, 'ended_runs: late_reports only gains statuses');
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER ended_runs_late;
DROP TRIGGER ended_runs_dead;
DROP TRIGGER ended_runs_final;
DROP TABLE run_results;
