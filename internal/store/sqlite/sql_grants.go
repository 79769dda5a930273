package sqlite

// Execution grants.
const (
	grantColumns = `g.grant_id, g.user_id, g.billing_account_id, g.scopes, g.expires_at, g.revoked_at, g.revoked_by, g.revoke_note,
 g.created_by, g.created_at`

	sqlPutGrant = `INSERT INTO execution_grants (grant_id, user_id, billing_account_id, scopes, expires_at, created_by, created_at)
 VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (user_id, grant_id) DO NOTHING`
	sqlGrants = `SELECT ` + grantColumns + ` FROM json_each(?) j CROSS JOIN execution_grants g
 ON g.user_id = j.value ->> 0 AND g.grant_id = j.value ->> 1`
	// The first revocation stays.
	sqlRevokeGrant = `UPDATE execution_grants SET revoked_at = ?2, revoked_by = ?3, revoke_note = ?4 WHERE grant_id = ?1 AND user_id = ?5 AND revoked_at IS NULL`

	// ?5 = now.
	sqlListGrants = `SELECT ` + grantColumns + ` FROM execution_grants g WHERE (g.grant_id, g.user_id) > (?1, ?7)
 AND (?8 = '' OR g.grant_id = ?8)
 AND (?2 = '' OR g.user_id = ?2) AND (?3 = '' OR g.billing_account_id = ?3)
 AND CASE ?4 WHEN 'revoked' THEN g.revoked_at IS NOT NULL
  WHEN 'expired' THEN g.revoked_at IS NULL AND g.expires_at <= ?5
  WHEN 'active' THEN g.revoked_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > ?5)
  ELSE true END
 ORDER BY g.grant_id, g.user_id LIMIT ?6`
)
