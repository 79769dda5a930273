-- +goose Up
-- Durable, scoped, revocable permissions to run (docs/grants.md). A grant holds
-- no credential, is never changed but for its revocation, and never deleted: it
-- says on whose account past runs took place.
CREATE TABLE execution_grants (
    grant_id           TEXT PRIMARY KEY,
    user_id            TEXT NOT NULL,
    billing_account_id TEXT NOT NULL,
    scopes             TEXT NOT NULL,        -- a JSON array
    expires_at         INTEGER,
    revoked_at         INTEGER,
    revoked_by         TEXT,
    revoke_note        TEXT,
    created_by         TEXT,
    created_at         INTEGER NOT NULL
) STRICT;

CREATE INDEX execution_grants_user ON execution_grants (user_id, grant_id);
CREATE INDEX execution_grants_billing_account ON execution_grants (billing_account_id, grant_id);
CREATE INDEX schedules_grant ON schedules (execution_grant_id, schedule_id) WHERE execution_grant_id IS NOT NULL AND deleted_at IS NULL;

-- +goose Down
DROP INDEX schedules_grant;
DROP TABLE execution_grants;
