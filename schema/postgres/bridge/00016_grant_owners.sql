-- +goose Up
-- A grant_id belongs to its owner: two owners may use the same one.
ALTER TABLE execution_grants ALTER COLUMN user_id TYPE text COLLATE "C";
ALTER TABLE execution_grants DROP CONSTRAINT execution_grants_pkey, ADD PRIMARY KEY (user_id, grant_id);
DROP INDEX execution_grants_user;
CREATE INDEX execution_grants_id ON execution_grants (grant_id, user_id);

-- +goose Down
-- Fails where two owners have the same grant_id.
DROP INDEX execution_grants_id;
ALTER TABLE execution_grants DROP CONSTRAINT execution_grants_pkey, ADD PRIMARY KEY (grant_id);
CREATE INDEX execution_grants_user ON execution_grants (user_id, grant_id);
