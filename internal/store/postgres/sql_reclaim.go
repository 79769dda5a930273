package postgres

// sqlReclaim sends runs again that are still due: their answer may have come since
// they were chosen. A run whose cancel is requested is sent only if its outcome is
// recorded: the launcher answers from the record, and that settles the run.
const sqlReclaim = `
UPDATE schedule_runs r SET epoch = $1, claimed_until = $3, updated_at = $2
WHERE r.status || '' = 'LAUNCHING' AND r.idempotency_key = ANY(ARRAY(
	SELECT r.idempotency_key FROM schedule_runs r
	WHERE r.idempotency_key = ANY($4::bytea[]) AND r.status || '' = 'LAUNCHING'
		AND (r.epoch <> $1 OR r.claimed_until IS NULL OR r.claimed_until <= $2)
		AND (r.cancel_requested_at IS NULL
			OR (SELECT e.state = 'DONE' FROM execution_requests e WHERE e.idempotency_key = r.idempotency_key))
	ORDER BY r.idempotency_key FOR UPDATE SKIP LOCKED))
RETURNING` + runColumns

const sqlCancelRequests = `
SELECT` + runColumns + identityColumns + `
FROM schedule_runs r` + joinRevision + `
WHERE r.idempotency_key = ANY($1::bytea[]) AND r.cancel_requested_at IS NOT NULL
	AND r.status || '' IN ('LAUNCHING','ENQUEUED','STARTED')
ORDER BY r.cancel_requested_at, r.idempotency_key`
