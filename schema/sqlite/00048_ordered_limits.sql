-- +goose Up
-- The runs of a key go one after the other, each with all its attempts.
ALTER TABLE limits ADD COLUMN ordered INTEGER NOT NULL DEFAULT 0;
-- Of the limits of a run, those that it uses while it waits: the attempt before it has left them to it.
-- NULL: none.
ALTER TABLE open_runs ADD COLUMN kept_limits TEXT;
CREATE INDEX open_runs_kept ON open_runs (queue_no) WHERE queue_state = 2 AND kept_limits IS NOT NULL;

-- +goose Down
-- Older releases know no run that waits and uses a limit: its key would be blocked until it ends.
DELETE FROM limit_uses WHERE used_by IN (SELECT idempotency_key FROM open_runs WHERE kept_limits IS NOT NULL AND queue_state < 4);
DROP INDEX open_runs_kept;
ALTER TABLE open_runs DROP COLUMN kept_limits;
ALTER TABLE limits DROP COLUMN ordered;
