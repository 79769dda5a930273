-- +goose Up
-- What a leader that keeps its open runs in memory has to read again. Every
-- transaction writes here what it changes of schedules and open runs. Readers go by
-- snapshots and not by at, which is the start of a transaction.
CREATE TABLE changes (
    xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at           timestamptz NOT NULL DEFAULT now(),
    first_bucket smallint NOT NULL, -- the least and the greatest bucket that it concerns
    last_bucket  smallint NOT NULL,
    kind         smallint NOT NULL, -- 1 schedule changed, 2 run inserted or changed, 3 run ended, 4 cancel requested
    schedule_ids text[],            -- of kind 1
    keys         bytea[]            -- of the others
);
CREATE INDEX changes_xid ON changes (xid);
CREATE INDEX changes_at ON changes (kind, at); -- for retention

-- Up to which fire_at a leader of the shard has looked at everything that was due.
-- A slot that fired later and is late has been missed. NULL = nothing is seen.
ALTER TABLE leaders ADD COLUMN seen_until timestamptz;

-- So far each slot that was seen has judged_at. None without it may count as seen.
UPDATE leaders SET seen_until = (
    SELECT max(fire_at) FROM schedule_runs
    WHERE status = 'PLANNED' AND waiting_since IS NULL AND judged_at IS NOT NULL AND fire_at <= now()
        AND fire_at < coalesce((SELECT min(fire_at) FROM schedule_runs
            WHERE status = 'PLANNED' AND waiting_since IS NULL AND trigger = 'schedule' AND judged_at IS NULL), 'infinity'));

-- Only the claim in SQL has read it.
DROP INDEX schedule_runs_turns;

-- +goose Down
CREATE INDEX schedule_runs_turns ON schedule_runs ((left(overlap_key, -1 - length(split_part(overlap_key, '/', -1)))),
    ((trigger IN ('catchup','backfill'))::integer * 1000000 - priority), fire_at, run_at, idempotency_key)
    WHERE lower(status) = 'planned' AND waiting_since IS NULL;
UPDATE schedule_runs SET judged_at = now()
WHERE status = 'PLANNED' AND waiting_since IS NULL AND trigger = 'schedule' AND judged_at IS NULL
    AND fire_at <= (SELECT min(seen_until) FROM leaders HAVING count(seen_until) = count(*));
ALTER TABLE leaders DROP COLUMN seen_until;
DROP TABLE changes;
