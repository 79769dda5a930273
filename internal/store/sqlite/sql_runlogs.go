package sqlite

// Logs of runs.
const (
	sqlNoteOpenReport = `UPDATE open_runs SET exit_code = COALESCE(?2, exit_code), log_url = COALESCE(?3, log_url), progress = COALESCE(?4, progress)
 WHERE idempotency_key = ?1 AND status = 4`

	// logParts numbers the gaps before it selects: a page must know what the one
	// before it held. A run has a few thousand parts at most.
	logParts = `SELECT seq, step, written_at, from_byte, to_byte, skipped, content FROM (
 SELECT *, max(from_byte - lag(to_byte, 1, 0) OVER (PARTITION BY step ORDER BY seq), 0) AS skipped
 FROM run_logs WHERE idempotency_key = ?1) WHERE (?2 = '' OR step = ?2) AND seq > ?3`
	sqlReadRunLog  = logParts + ` ORDER BY seq LIMIT ?4`
	sqlReadLastLog = logParts + ` ORDER BY seq DESC LIMIT ?4`
)
