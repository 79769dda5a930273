package postgres

// sqlReclaim checks that runs must still be sent again: they may have been answered since
// they were chosen. A run with a requested cancel is not sent any more.
var sqlReclaim = `
UPDATE open_runs o SET epoch = $1, send_after = $3, updated_at = $2
WHERE o.status = 2 AND o.idempotency_key = ANY(ARRAY(
	SELECT o.idempotency_key FROM open_runs o
	WHERE o.idempotency_key = ANY($4::bytea[]) AND o.status = 2
		AND (o.epoch <> $1 OR o.send_after IS NULL OR o.send_after <= $2) AND o.cancel_requested_at IS NULL
	ORDER BY o.idempotency_key FOR UPDATE SKIP LOCKED))
RETURNING` + openColumns

var sqlCancelRequests = `
SELECT` + openColumns + ownerColumns + fromOpen + joinOpenRevision + `
WHERE o.idempotency_key = ANY($1::bytea[]) AND o.cancel_requested_at IS NOT NULL AND o.status > 1
ORDER BY o.cancel_requested_at, o.idempotency_key`
