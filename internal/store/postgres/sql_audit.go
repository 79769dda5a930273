package postgres

// The audit trail.

const sqlInsertAudit = `
INSERT INTO audit_log (time, subject, via, method, target, user_id, request_id, code, revision_before, revision_after, count, other_targets)
SELECT time, subject, via, method, target, user_id, request_id, code, revision_before, revision_after, count, other_targets
FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::bigint[],
	$11::bigint[], $12::boolean[])
	WITH ORDINALITY AS u(time, subject, via, method, target, user_id, request_id, code, revision_before, revision_after, count, other_targets, place)
ORDER BY place`

const sqlListAudit = `
SELECT audit_id, time, subject, via, method, target, user_id, request_id, code, revision_before, revision_after, count, other_targets
FROM audit_log
WHERE ($1 = '' OR subject = $1) AND ($2 = '' OR target = $2) AND ($3 = '' OR method = $3)
	AND ($4::timestamptz IS NULL OR time >= $4) AND ($5::timestamptz IS NULL OR time < $5)
	AND audit_id < $6
ORDER BY audit_id DESC LIMIT $7`

const sqlPruneAudit = `
DELETE FROM audit_log WHERE audit_id = ANY(ARRAY(
	SELECT audit_id FROM audit_log WHERE time < $1 ORDER BY time LIMIT $2))`
