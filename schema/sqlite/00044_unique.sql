-- +goose Up
-- Unique keys of runs in queues. A row names the run that holds a key: an entry under the same key
-- finds it. The end of the run deletes its row, or gives it to the retry.
CREATE TABLE queue_uniques (
    queue_no   INTEGER NOT NULL,
    hash       BLOB NOT NULL, -- of queue_id, user_id and unique_key
    user_id    TEXT NOT NULL,
    unique_key TEXT NOT NULL,
    run_key    BLOB NOT NULL,
    scope      TEXT NOT NULL, -- waiting, open, period
    first_at   INTEGER NOT NULL, -- when its first run entered
    until      INTEGER, -- of scope period: the key is free from then on
    replaced   INTEGER NOT NULL, -- how often another entry has replaced the run
    fire_by    INTEGER, -- debounced: the run starts then at the latest
    PRIMARY KEY (queue_no, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_uniques_run ON queue_uniques (run_key);
CREATE INDEX queue_uniques_until ON queue_uniques (until) WHERE until IS NOT NULL;

-- Of each run of a request, unless all were new: . new, d there already, r there already and
-- replaced.
ALTER TABLE queue_requests ADD COLUMN marks TEXT;

-- +goose Down
ALTER TABLE queue_requests DROP COLUMN marks;
DROP TABLE queue_uniques;
