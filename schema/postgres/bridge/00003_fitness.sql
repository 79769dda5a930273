-- +goose Up
-- Which process a worker is (host:pid), and why its launches would not arrive;
-- '' = they would.
ALTER TABLE workers ADD COLUMN host text NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN unfit text NOT NULL DEFAULT '';

-- Which kind of lock the leader uses (LEADER_LOCK); '' = it did not say. A lock
-- of another kind says nothing about it.
ALTER TABLE leaders ADD COLUMN lock_kind text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE leaders DROP COLUMN lock_kind;
ALTER TABLE workers DROP COLUMN unfit, DROP COLUMN host;
