-- +goose Up
-- The launcher's key of a run is in the run's own row. execution_requests keeps only keys
-- that the ledger does not have: graph runs, starts from workers on another database.

-- The instance that may call the executor for the key. NULL: unknown, only the lease
-- protects the key.
ALTER TABLE open_runs ADD COLUMN holder INTEGER;
-- No other call before, unless the holder is gone. NULL: the key is free.
ALTER TABLE open_runs ADD COLUMN lease_until INTEGER;
-- When the first call that may have reached the executor began. In history: of runs that
-- were delivered more than once.
ALTER TABLE open_runs ADD COLUMN first_sent_at INTEGER;
ALTER TABLE ended_runs ADD COLUMN first_sent_at INTEGER;

-- A run that is LAUNCHING although the outcome of its key is recorded is sent again under
-- the same key.
UPDATE open_runs AS o SET
    holder = CASE WHEN o.status = 2 AND e.state = 'IN_PROGRESS' THEN e.holder END,
    lease_until = CASE WHEN o.status = 2 AND e.state = 'IN_PROGRESS' THEN e.lease_until END,
    first_sent_at = CASE WHEN e.sent THEN coalesce(e.sent_at, e.created_at) END,
    deliveries = CASE WHEN o.status <> 2 THEN o.deliveries WHEN e.sent THEN e.calls ELSE 0 END
FROM execution_requests e WHERE e.idempotency_key = o.idempotency_key;
UPDATE ended_runs AS r SET first_sent_at = coalesce(e.sent_at, e.created_at)
FROM execution_requests e WHERE e.idempotency_key = r.idempotency_key AND e.sent AND r.deliveries > 1;
DELETE FROM execution_requests AS e
WHERE EXISTS (SELECT 1 FROM open_runs o WHERE o.idempotency_key = e.idempotency_key)
    OR EXISTS (SELECT 1 FROM ended_runs r WHERE r.idempotency_key = e.idempotency_key);

UPDATE execution_requests SET calls = 0 WHERE NOT sent;
ALTER TABLE execution_requests DROP COLUMN sent;
ALTER TABLE execution_requests DROP COLUMN sent_at;
ALTER TABLE execution_requests DROP COLUMN ok;

-- +goose Down
-- The table as it was, with its columns in their order.
CREATE TABLE keys_outside AS SELECT * FROM execution_requests;
DROP TABLE execution_requests;
CREATE TABLE execution_requests (
    idempotency_key BLOB PRIMARY KEY CHECK (length(idempotency_key) = 32),
    request_hash    BLOB NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('IN_PROGRESS','DONE')),
    sent            INTEGER NOT NULL DEFAULT 0,
    lease_until     INTEGER,
    ok              INTEGER,
    status          TEXT,
    reason          TEXT,
    run_id          TEXT,
    trace_id        TEXT,
    error_code      TEXT,
    error_message   TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    sent_at         INTEGER,
    calls           INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX execution_requests_created ON execution_requests (created_at);
ALTER TABLE execution_requests ADD COLUMN holder INTEGER;
INSERT INTO execution_requests (idempotency_key, request_hash, state, sent, sent_at, calls, holder, lease_until, ok,
    status, reason, run_id, trace_id, error_code, error_message, created_at, updated_at)
SELECT idempotency_key, request_hash, state, calls > 0, CASE WHEN calls > 0 THEN created_at END, max(calls, 1), holder, lease_until,
    CASE WHEN state = 'DONE' THEN status IN ('ENQUEUED', 'SUCCESS') END, status, reason, run_id, trace_id, error_code, error_message, created_at, updated_at
FROM keys_outside;
DROP TABLE keys_outside;

-- The records of open runs that were sent. A hash of zeros is that of any request.
INSERT INTO execution_requests (idempotency_key, request_hash, state, sent, sent_at, calls, holder, lease_until, ok, status, run_id, trace_id, created_at, updated_at)
SELECT o.idempotency_key, zeroblob(32), CASE WHEN o.status = 2 THEN 'IN_PROGRESS' ELSE 'DONE' END,
    o.deliveries > 0, o.first_sent_at, max(o.deliveries, 1), o.holder, CASE WHEN o.status = 2 THEN o.lease_until END,
    CASE WHEN o.status > 2 THEN 1 END, CASE WHEN o.status > 2 THEN 'ENQUEUED' END, o.run_id, o.trace_id,
    coalesce(o.first_sent_at, o.created_at), o.updated_at
FROM open_runs o WHERE o.status > 1 AND o.deliveries > 0;
-- And of ended runs that were sent more than once, for the time of the first call.
INSERT INTO execution_requests (idempotency_key, request_hash, state, sent, sent_at, calls, ok, status, reason, run_id, trace_id, error_code, error_message, created_at, updated_at)
SELECT r.idempotency_key, zeroblob(32), 'DONE', 1, r.first_sent_at, r.deliveries, r.status = 5,
    CASE r.status WHEN 5 THEN 'SUCCESS' WHEN 6 THEN 'FAILED' WHEN 7 THEN 'SKIPPED' ELSE 'CANCELLED' END,
    r.reason, r.run_id, r.trace_id, r.error_code, r.error_message, r.first_sent_at, r.recorded_at
FROM ended_runs r WHERE r.first_sent_at IS NOT NULL;
ALTER TABLE ended_runs DROP COLUMN first_sent_at;
ALTER TABLE open_runs DROP COLUMN first_sent_at;
ALTER TABLE open_runs DROP COLUMN lease_until;
ALTER TABLE open_runs DROP COLUMN holder;
