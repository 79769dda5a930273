-- +goose Up
-- Which ends of runs of the queue history keeps: 'failed'. NULL: all. It is in the definition too;
-- the end of a run reads it here.
ALTER TABLE queues ADD COLUMN history TEXT;
-- The end of the run is written to history, whatever its queue keeps. NULL: as the queue says. The
-- runs that are in a queue now, and those of older releases, are kept: nobody has asked.
ALTER TABLE open_runs ADD COLUMN keep_history INTEGER DEFAULT 1;

-- The successes that are in no row of history, by the minute. A row counts ends (ended) or their
-- starts. writer is 0: there is one writer. On Postgres it is the connection.
CREATE TABLE queue_minutes (
    queue_no    INTEGER NOT NULL,
    minute      INTEGER NOT NULL,
    workflow_id TEXT NOT NULL,
    ended       INTEGER NOT NULL,
    writer      INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    wait_ms     INTEGER NOT NULL, -- of starts: from the entry, or the fire_at after it, to the admission
    run_ms      INTEGER NOT NULL, -- of ends: from the call to the end
    PRIMARY KEY (queue_no, minute, workflow_id, ended, writer)
) WITHOUT ROWID;
CREATE INDEX queue_minutes_minute ON queue_minutes (minute);

-- +goose Down
DROP TABLE queue_minutes;
ALTER TABLE open_runs DROP COLUMN keep_history;
ALTER TABLE queues DROP COLUMN history;
