package sqlite

// Execution grants.
const (
	grantColumns = `g.grant_id, g.user_id, g.billing_account_id, g.scopes, g.expires_at, g.revoked_at, g.revoked_by, g.revoke_note,
 g.created_by, g.created_at`

	sqlGrants = `SELECT ` + grantColumns + ` FROM json_each(?) j CROSS JOIN execution_grants g
 ON g.user_id = j.value ->> 0 AND g.grant_id = j.value ->> 1`

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
