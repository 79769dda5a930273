package sqlite

// The audit trail.

const (
	sqlInsertAudit = `INSERT INTO audit_log (time, subject, via, method, target, user_id, request_id, code, revision_before, revision_after, count, other_targets)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlListAudit = `SELECT audit_id, time, subject, via, method, target, user_id, request_id, code, revision_before, revision_after, count, other_targets
 FROM audit_log WHERE audit_id < ?`
	sqlAuditSubject = ` AND subject = ?`
	sqlAuditTarget  = ` AND target = ?`
	sqlAuditMethod  = ` AND method = ?`
	sqlAuditFrom    = ` AND time >= ?`
	sqlAuditTo      = ` AND time < ?`
	sqlAuditOrder   = ` ORDER BY audit_id DESC LIMIT ?`
	sqlPruneAudit   = `DELETE FROM audit_log WHERE audit_id IN (SELECT audit_id FROM audit_log WHERE time < ? ORDER BY time LIMIT ?)`
)
