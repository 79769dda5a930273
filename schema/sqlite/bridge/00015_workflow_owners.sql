-- +goose Up
-- A version belongs to one owner, or, with an empty user_id, is stored for all
-- owners. Two owners may store different DAGs as the same version.
ALTER TABLE workflow_versions RENAME TO workflow_versions_00014;
CREATE TABLE workflow_versions (
    workflow_id TEXT NOT NULL,
    user_id     TEXT NOT NULL,              -- empty: stored for all owners
    version     INTEGER NOT NULL,
    dag         TEXT NOT NULL,              -- raw JSON, as sent
    dag_hash    BLOB NOT NULL,              -- sha256 of its canonical form
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, user_id, version)
) STRICT;
INSERT INTO workflow_versions (workflow_id, user_id, version, dag, dag_hash, created_at)
SELECT workflow_id, user_id, version, dag, dag_hash, created_at FROM workflow_versions_00014;
DROP TABLE workflow_versions_00014;

-- Which owners may run, and see, the versions of a workflow that are stored for
-- all owners. '*' is every owner.
CREATE TABLE workflow_shares (
    workflow_id TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    given_by    TEXT,
    given_at    INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, user_id)
) STRICT;

-- What runs today goes on running: docs/deploying-workflows.md says how to review it.
INSERT INTO workflow_shares (workflow_id, user_id, given_by, given_at)
SELECT DISTINCT s.workflow_id, s.user_id, 'carillon migrate', CAST(unixepoch('subsec') * 1000000 AS INTEGER) FROM schedules s
WHERE s.deleted_at IS NULL AND EXISTS (SELECT 1 FROM workflow_versions v WHERE v.workflow_id = s.workflow_id AND v.user_id = '');

-- +goose Down
DROP TABLE workflow_shares;
ALTER TABLE workflow_versions RENAME TO workflow_versions_00015;
CREATE TABLE workflow_versions (
    workflow_id TEXT NOT NULL,
    version     INTEGER NOT NULL,
    dag         TEXT NOT NULL,
    dag_hash    BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    user_id     TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (workflow_id, version)
) STRICT;
-- Of several owners' DAGs under one version only the first owner's is kept.
INSERT OR IGNORE INTO workflow_versions (workflow_id, version, dag, dag_hash, created_at, user_id)
SELECT workflow_id, version, dag, dag_hash, created_at, user_id FROM workflow_versions_00015 ORDER BY workflow_id, version, user_id;
DROP TABLE workflow_versions_00015;
