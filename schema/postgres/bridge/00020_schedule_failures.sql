-- +goose Up
-- The schedules that fail: a row while the newest decided run of a schedule is
-- FAILED (docs/semantics.md, "Failing schedules"). A run that ends FAILED writes
-- it, one that ends SUCCESS deletes it, each in its own transaction.
CREATE TABLE schedule_failures (
    schedule_id    text COLLATE "C" PRIMARY KEY,
    failures       bigint NOT NULL,          -- FAILED runs since the last success
    first_run_at   timestamptz NOT NULL,     -- slot of the first of them
    first_ended_at timestamptz NOT NULL,
    last_run_at    timestamptz NOT NULL,     -- slot of the newest
    last_ended_at  timestamptz NOT NULL,
    idempotency_key bytea NOT NULL CHECK (octet_length(idempotency_key) = 32), -- of the newest
    reason         text NOT NULL,            -- of the newest
    error_code     text NOT NULL             -- '' = none
);

-- What fails today. Its count starts here.
INSERT INTO schedule_failures (schedule_id, failures, first_run_at, first_ended_at, last_run_at, last_ended_at, idempotency_key, reason, error_code)
SELECT s.schedule_id, 1, r.run_at, coalesce(r.completed_at, r.updated_at), r.run_at, coalesce(r.completed_at, r.updated_at), r.idempotency_key,
    coalesce(r.reason, ''), coalesce(r.error_code, '')
FROM schedules s CROSS JOIN LATERAL (
    SELECT * FROM schedule_runs l WHERE l.schedule_id = s.schedule_id AND l.status IN ('SUCCESS','FAILED')
    ORDER BY l.run_at DESC, l.completed_at DESC LIMIT 1) r
WHERE s.deleted_at IS NULL AND r.status = 'FAILED';

-- Alerts about them, kind failure, name the run and its error.
ALTER TABLE expectations DROP CONSTRAINT expectations_kind_check,
    ADD CONSTRAINT expectations_kind_check CHECK (kind IN ('start','finish','success','failure'));
CREATE INDEX expectations_failure ON expectations (schedule_id) WHERE kind = 'failure';
ALTER TABLE alerts ADD COLUMN idempotency_key bytea;
ALTER TABLE alerts ADD COLUMN detail text;

-- +goose Down
ALTER TABLE alerts DROP COLUMN idempotency_key, DROP COLUMN detail;
DROP INDEX expectations_failure;
DELETE FROM expectations WHERE kind = 'failure';
ALTER TABLE expectations DROP CONSTRAINT expectations_kind_check,
    ADD CONSTRAINT expectations_kind_check CHECK (kind IN ('start','finish','success'));
DROP TABLE schedule_failures;
