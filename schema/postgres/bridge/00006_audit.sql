-- +goose Up
-- Whose a workflow version is: the owner that it was stored for; '' = nobody's,
-- whoever has a schedule of the workflow may read it.
ALTER TABLE workflow_versions ADD COLUMN user_id text COLLATE "C" NOT NULL DEFAULT '';

-- Who asked for what, and what became of it: calls that change something, and
-- refused ones. Rows are only added, and pruned by retention.
CREATE TABLE audit_log (
    audit_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time            timestamptz NOT NULL,
    subject         text NOT NULL,           -- '' = authentication is off
    via             text NOT NULL,           -- how it was shown: jwt, mtls, ...; never what was shown
    method          text NOT NULL,
    target          text COLLATE "C" NOT NULL,
    user_id         text COLLATE "C" NOT NULL, -- the target's owner, '' = not known
    request_id      text NOT NULL,
    code            text NOT NULL,           -- OK or the error's code
    revision_before bigint NOT NULL DEFAULT 0, -- of a schedule
    revision_after  bigint NOT NULL DEFAULT 0
);
CREATE INDEX audit_log_time ON audit_log (time); -- for retention
CREATE INDEX audit_log_target ON audit_log (target, audit_id DESC);
CREATE INDEX audit_log_subject ON audit_log (subject, audit_id DESC);

-- +goose StatementBegin
CREATE FUNCTION refuse_audit_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_log is only added to';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_append_only BEFORE UPDATE ON audit_log EXECUTE FUNCTION refuse_audit_update();

-- +goose Down
DROP TABLE audit_log;
DROP FUNCTION refuse_audit_update();
ALTER TABLE workflow_versions DROP COLUMN user_id;
