package postgres

// sqlLockResent are launches that may be sent again. A locked one is being answered.
var sqlLockResent = lockOpenRuns + `o.idempotency_key = ANY($1::bytea[]) AND o.status = 2` + byKey + ` SKIP LOCKED`

const sqlResend = `
UPDATE open_runs o SET epoch = $1, send_after = $2, updated_at = $3
WHERE o.idempotency_key = ANY($4::bytea[]) AND o.status = 2`

var sqlCancelRequests = `
SELECT` + openColumns + ownerColumns + fromOpen + joinOpenRevision + `
WHERE o.idempotency_key = ANY($1::bytea[]) AND o.cancel_requested_at IS NOT NULL AND o.status > 1
ORDER BY o.cancel_requested_at, o.idempotency_key`
