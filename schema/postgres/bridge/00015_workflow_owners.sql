-- +goose Up
-- A version belongs to one owner, or, with an empty user_id, is stored for all
-- owners. Two owners may store different DAGs as the same version.
ALTER TABLE workflow_versions ALTER COLUMN user_id DROP DEFAULT;
ALTER TABLE workflow_versions DROP CONSTRAINT workflow_versions_pkey;
ALTER TABLE workflow_versions ADD PRIMARY KEY (workflow_id, user_id, version);

-- Which owners may run, and see, the versions of a workflow that are stored for
-- all owners. '*' is every owner.
CREATE TABLE workflow_shares (
    workflow_id text COLLATE "C" NOT NULL,
    user_id     text COLLATE "C" NOT NULL,
    given_by    text,
    given_at    timestamptz NOT NULL,
    PRIMARY KEY (workflow_id, user_id)
);

-- What runs today goes on running: docs/deploying-workflows.md says how to review it.
INSERT INTO workflow_shares (workflow_id, user_id, given_by, given_at)
SELECT DISTINCT s.workflow_id, s.user_id, 'carillon migrate', now() FROM schedules s
WHERE s.deleted_at IS NULL AND EXISTS (SELECT FROM workflow_versions v WHERE v.workflow_id = s.workflow_id AND v.user_id = '');

-- +goose Down
DROP TABLE workflow_shares;
-- Of several owners' DAGs under one version only the first owner's is kept.
DELETE FROM workflow_versions v WHERE EXISTS (SELECT FROM workflow_versions o
    WHERE o.workflow_id = v.workflow_id AND o.version = v.version AND o.user_id < v.user_id);
ALTER TABLE workflow_versions DROP CONSTRAINT workflow_versions_pkey;
ALTER TABLE workflow_versions ADD PRIMARY KEY (workflow_id, version);
ALTER TABLE workflow_versions ALTER COLUMN user_id SET DEFAULT '';
