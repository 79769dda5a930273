package postgres

// The parts of a report on a run that has started or ended.
const (
	sqlNoteOpenReport = `
UPDATE open_runs SET` + reported + ` WHERE idempotency_key = $1 AND status = 4`

	sqlNoteEndedReport = `
UPDATE ended_runs SET` + reported + ` WHERE idempotency_key = $1 AND status IN (5, 6, 8)`

	reported = ` exit_code = coalesce($2::integer, exit_code), log_url = coalesce($3::text, log_url)`
)

// The number comes before the deletion: a reader that has the part that goes
// must find the new one behind it.
const sqlInsertReportedOutput = `
INSERT INTO run_logs (idempotency_key, seq, step, written_at, from_byte, to_byte, content)
SELECT $1, COALESCE(max(seq), 0) + 1, '', $2, $3, $4, $5 FROM run_logs WHERE idempotency_key = $1`

const sqlDropReportedOutput = `
DELETE FROM run_logs l WHERE l.idempotency_key = $1 AND l.step = ''
	AND l.seq < (SELECT max(seq) FROM run_logs m WHERE m.idempotency_key = $1)`

const sqlInsertLogPart = `
INSERT INTO run_logs (idempotency_key, seq, step, written_at, from_byte, to_byte, content)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`

const sqlDropLogPart = `
DELETE FROM run_logs WHERE idempotency_key = $1 AND seq = $2`

// logParts numbers the gaps before it selects: a page must know what the one
// before it held. A run has a few thousand parts at most.
const logParts = `
SELECT seq, step, written_at, from_byte, to_byte, skipped, content FROM (
	SELECT *, GREATEST(from_byte - lag(to_byte, 1, 0::bigint) OVER (PARTITION BY step ORDER BY seq), 0) AS skipped
	FROM run_logs WHERE idempotency_key = $1) l
WHERE ($2 = '' OR step = $2) AND seq > $3`

const (
	sqlReadRunLog  = logParts + ` ORDER BY seq LIMIT $4`
	sqlReadLastLog = logParts + ` ORDER BY seq DESC LIMIT $4`
)

const sqlPruneRunLogs = `
DELETE FROM run_logs WHERE (idempotency_key, seq) IN (
	SELECT idempotency_key, seq FROM run_logs WHERE written_at < $1 ORDER BY written_at LIMIT $2)`
