-- +goose Up
-- The schedules that fail: a row while the newest decided run of a schedule is
-- FAILED (docs/semantics.md, "Failing schedules"). A run that ends FAILED writes
-- it, one that ends SUCCESS deletes it, each in its own transaction.
CREATE TABLE schedule_failures (
    schedule_id    TEXT PRIMARY KEY,
    failures       INTEGER NOT NULL,         -- FAILED runs since the last success
    first_run_at   INTEGER NOT NULL,         -- slot of the first of them
    first_ended_at INTEGER NOT NULL,
    last_run_at    INTEGER NOT NULL,         -- slot of the newest
    last_ended_at  INTEGER NOT NULL,
    idempotency_key BLOB NOT NULL CHECK (length(idempotency_key) = 32),
    reason         TEXT NOT NULL,            -- of the newest
    error_code     TEXT NOT NULL             -- '' = none
) STRICT;

-- What fails today. Its count starts here.
INSERT INTO schedule_failures (schedule_id, failures, first_run_at, first_ended_at, last_run_at, last_ended_at, idempotency_key, reason, error_code)
SELECT s.schedule_id, 1, r.run_at, coalesce(r.completed_at, r.updated_at), r.run_at, coalesce(r.completed_at, r.updated_at), r.idempotency_key,
    coalesce(r.reason, ''), coalesce(r.error_code, '')
FROM schedules s CROSS JOIN schedule_runs r ON r.idempotency_key = (
    SELECT l.idempotency_key FROM schedule_runs l WHERE l.schedule_id = s.schedule_id AND l.status IN ('SUCCESS','FAILED')
    ORDER BY l.run_at DESC, l.completed_at DESC LIMIT 1)
WHERE s.deleted_at IS NULL AND r.status = 'FAILED';

-- Alerts about them, kind failure, name the run and its error. SQLite cannot
-- change a CHECK: the table is made again.
ALTER TABLE expectations RENAME TO expectations_before;
CREATE TABLE expectations (
    schedule_id   TEXT NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('start','finish','success','failure')),
    status        TEXT NOT NULL CHECK (status IN ('ok','late','alerting')),
    limit_ms      INTEGER NOT NULL DEFAULT 0, -- under which it was judged last
    late          INTEGER NOT NULL DEFAULT 0, -- in a row
    late_since    INTEGER,               -- the first of them
    watched_since INTEGER NOT NULL,
    judged_until  INTEGER NOT NULL,      -- slots up to here have their verdict
    met_at        INTEGER,               -- the last slot in time, or the last success
    alert_id      TEXT,          -- the open one
    judge_at      INTEGER,               -- NULL = nothing to judge until the schedule changes
    judged_at     INTEGER,
    PRIMARY KEY (schedule_id, kind)
) STRICT;
INSERT INTO expectations SELECT * FROM expectations_before;
DROP TABLE expectations_before;
CREATE INDEX expectations_judge_at ON expectations (judge_at) WHERE judge_at IS NOT NULL;
CREATE INDEX expectations_unmet ON expectations (kind) WHERE status <> 'ok';
CREATE INDEX expectations_failure ON expectations (schedule_id) WHERE kind = 'failure';
ALTER TABLE alerts ADD COLUMN idempotency_key BLOB;
ALTER TABLE alerts ADD COLUMN detail TEXT;

-- +goose Down
ALTER TABLE alerts DROP COLUMN idempotency_key;
ALTER TABLE alerts DROP COLUMN detail;
ALTER TABLE expectations RENAME TO expectations_after;
CREATE TABLE expectations (
    schedule_id   TEXT NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('start','finish','success')),
    status        TEXT NOT NULL CHECK (status IN ('ok','late','alerting')),
    limit_ms      INTEGER NOT NULL DEFAULT 0,
    late          INTEGER NOT NULL DEFAULT 0,
    late_since    INTEGER,
    watched_since INTEGER NOT NULL,
    judged_until  INTEGER NOT NULL,
    met_at        INTEGER,
    alert_id      TEXT,
    judge_at      INTEGER,
    judged_at     INTEGER,
    PRIMARY KEY (schedule_id, kind)
) STRICT;
INSERT INTO expectations SELECT * FROM expectations_after WHERE kind <> 'failure';
DROP TABLE expectations_after;
CREATE INDEX expectations_judge_at ON expectations (judge_at) WHERE judge_at IS NOT NULL;
CREATE INDEX expectations_unmet ON expectations (kind) WHERE status <> 'ok';
DROP TABLE schedule_failures;
