package postgres

// The parts of a report on a run that has started.
const sqlNoteOpenReport = `
UPDATE open_runs SET exit_code = coalesce($2::integer, exit_code), log_url = coalesce($3::text, log_url), progress = coalesce($4::text, progress)
WHERE idempotency_key = $1 AND status = 4`

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
