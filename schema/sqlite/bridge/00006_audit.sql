-- +goose Up
-- Whose a workflow version is: the owner that it was stored for; '' = nobody's,
-- whoever has a schedule of the workflow may read it.
ALTER TABLE workflow_versions ADD COLUMN user_id TEXT NOT NULL DEFAULT '';

-- Who asked for what, and what became of it: calls that change something, and
-- refused ones. Rows are only added, and pruned by retention.
CREATE TABLE audit_log (
    audit_id        INTEGER PRIMARY KEY AUTOINCREMENT,
    time            INTEGER NOT NULL,
    subject         TEXT NOT NULL,           -- '' = authentication is off
    via             TEXT NOT NULL,           -- how it was shown: jwt, mtls, ...; never what was shown
    method          TEXT NOT NULL,
    target          TEXT NOT NULL,
    user_id         TEXT NOT NULL,           -- the target's owner, '' = not known
    request_id      TEXT NOT NULL,
    code            TEXT NOT NULL,           -- OK or the error's code
    revision_before INTEGER NOT NULL DEFAULT 0, -- of a schedule
    revision_after  INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX audit_log_time ON audit_log (time); -- for retention
CREATE INDEX audit_log_target ON audit_log (target, audit_id DESC);
CREATE INDEX audit_log_subject ON audit_log (subject, audit_id DESC);

-- +goose StatementBegin
CREATE TRIGGER audit_log_append_only BEFORE UPDATE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'audit_log is only added to');
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE audit_log;
ALTER TABLE workflow_versions DROP COLUMN user_id;
