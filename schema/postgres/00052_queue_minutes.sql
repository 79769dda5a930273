-- +goose Up
-- Which ends of runs of the queue history keeps: 'failed'. NULL: all. It is in the definition too;
-- the end of a run reads it here.
ALTER TABLE queues ADD COLUMN history text;
-- The end of the run is written to history, whatever its queue keeps. NULL: as the queue says. The
-- runs that are in a queue now, and those of older releases, are kept: nobody has asked.
ALTER TABLE open_runs ADD COLUMN keep_history boolean DEFAULT true;

-- The successes that are in no row of history, by the minute. A row counts ends (ended) or their
-- starts. writer is the connection: transactions at the same time share no row.
CREATE TABLE queue_minutes (
    queue_no    integer NOT NULL,
    minute      timestamptz NOT NULL,
    workflow_id text COLLATE "C" NOT NULL,
    ended       boolean NOT NULL,
    writer      integer NOT NULL,
    n           bigint NOT NULL,
    wait_ms     bigint NOT NULL, -- of starts: from the entry, or the fire_at after it, to the admission
    run_ms      bigint NOT NULL, -- of ends: from the call to the end
    PRIMARY KEY (queue_no, minute, workflow_id, ended, writer)
) WITH (fillfactor = 50);
CREATE INDEX queue_minutes_minute ON queue_minutes (minute);

-- +goose Down
DROP TABLE queue_minutes;
ALTER TABLE open_runs DROP COLUMN keep_history;
ALTER TABLE queues DROP COLUMN history;
