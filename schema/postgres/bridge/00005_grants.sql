-- +goose Up
-- Durable, scoped, revocable permissions to run (docs/grants.md). A grant holds
-- no credential, is never changed but for its revocation, and never deleted: it
-- says on whose account past runs took place.
CREATE TABLE execution_grants (
    grant_id           text COLLATE "C" PRIMARY KEY,
    user_id            text NOT NULL,
    billing_account_id text NOT NULL,
    scopes             text[] NOT NULL,
    expires_at         timestamptz,
    revoked_at         timestamptz,
    revoked_by         text,
    revoke_note        text,
    created_by         text,
    created_at         timestamptz NOT NULL
);

CREATE INDEX execution_grants_user ON execution_grants (user_id, grant_id);
CREATE INDEX execution_grants_billing_account ON execution_grants (billing_account_id, grant_id);
CREATE INDEX schedules_grant ON schedules (execution_grant_id, schedule_id) WHERE execution_grant_id IS NOT NULL AND deleted_at IS NULL;

-- +goose Down
DROP INDEX schedules_grant;
DROP TABLE execution_grants;
