-- +goose Up
-- A grant_id belongs to its owner: two owners may use the same one.
ALTER TABLE execution_grants RENAME TO execution_grants_old;
CREATE TABLE execution_grants (
    user_id            TEXT NOT NULL,
    grant_id           TEXT NOT NULL,
    billing_account_id TEXT NOT NULL,
    scopes             TEXT NOT NULL,        -- a JSON array
    expires_at         INTEGER,
    revoked_at         INTEGER,
    revoked_by         TEXT,
    revoke_note        TEXT,
    created_by         TEXT,
    created_at         INTEGER NOT NULL,
    PRIMARY KEY (user_id, grant_id)
) STRICT;
INSERT INTO execution_grants (user_id, grant_id, billing_account_id, scopes, expires_at, revoked_at, revoked_by, revoke_note, created_by, created_at)
SELECT user_id, grant_id, billing_account_id, scopes, expires_at, revoked_at, revoked_by, revoke_note, created_by, created_at FROM execution_grants_old;
DROP TABLE execution_grants_old;
CREATE INDEX execution_grants_id ON execution_grants (grant_id, user_id);
CREATE INDEX execution_grants_billing_account ON execution_grants (billing_account_id, grant_id);

-- +goose Down
-- Fails where two owners have the same grant_id.
ALTER TABLE execution_grants RENAME TO execution_grants_old;
CREATE TABLE execution_grants (
    grant_id           TEXT PRIMARY KEY,
    user_id            TEXT NOT NULL,
    billing_account_id TEXT NOT NULL,
    scopes             TEXT NOT NULL,
    expires_at         INTEGER,
    revoked_at         INTEGER,
    revoked_by         TEXT,
    revoke_note        TEXT,
    created_by         TEXT,
    created_at         INTEGER NOT NULL
) STRICT;
INSERT INTO execution_grants (grant_id, user_id, billing_account_id, scopes, expires_at, revoked_at, revoked_by, revoke_note, created_by, created_at)
SELECT grant_id, user_id, billing_account_id, scopes, expires_at, revoked_at, revoked_by, revoke_note, created_by, created_at FROM execution_grants_old;
DROP TABLE execution_grants_old;
CREATE INDEX execution_grants_user ON execution_grants (user_id, grant_id);
CREATE INDEX execution_grants_billing_account ON execution_grants (billing_account_id, grant_id);
