-- +goose Up
-- changes names what was changed by somebody other than the claim, one row for
-- each transaction and kind, so that the leader of a shard can read it again. kind:
-- 1 schedules were changed, 2 runs were inserted or changed, 3 runs have ended,
-- 4 cancels were requested. AUTOINCREMENT, because change_id is the read position:
-- without it numbers begin again at 1 once the table is empty.
CREATE TABLE changes (
    change_id    INTEGER PRIMARY KEY AUTOINCREMENT,
    at           INTEGER NOT NULL,
    first_bucket INTEGER NOT NULL,
    last_bucket  INTEGER NOT NULL,
    kind         INTEGER NOT NULL,
    schedule_ids TEXT,                       -- a JSON array
    keys         BLOB                        -- idempotency keys, 32 bytes each
) STRICT;

-- Up to where the leaders of a shard have looked at every run that was due, in
-- time; NULL = nothing was. No slot that still has to be judged may lie before it.
ALTER TABLE leaders ADD COLUMN seen_until INTEGER;
UPDATE leaders SET seen_until = (
    SELECT max(r.fire_at) FROM schedule_runs r
    WHERE r.judged_at IS NOT NULL AND r.fire_at <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
      AND r.fire_at < COALESCE((SELECT min(p.fire_at) FROM schedule_runs p
          WHERE p.status = 'PLANNED' AND p.waiting_since IS NULL AND p.trigger = 'schedule' AND p.judged_at IS NULL), 9223372036854775807));

-- Only the claim in SQL read it.
DROP INDEX schedule_runs_turns;

-- +goose Down
CREATE INDEX schedule_runs_turns ON schedule_runs (substr(overlap_key, 1, length(rtrim(overlap_key, replace(overlap_key, '/', ''))) - 1),
    (trigger IN ('catchup','backfill')) * 1000000 - priority, fire_at, run_at)
    WHERE status = 'PLANNED' AND waiting_since IS NULL;
ALTER TABLE leaders DROP COLUMN seen_until;
DROP TABLE changes;
