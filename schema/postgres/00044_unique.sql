-- +goose Up
-- Unique keys of runs in queues. A row names the run that holds a key: an entry under the same key
-- finds it. The end of the run deletes its row, or gives it to the retry. An entry takes a key with
-- the lock of its hash and the row of the run in open_runs.
CREATE TABLE queue_uniques (
    queue_no   integer NOT NULL,
    hash       bytea NOT NULL, -- of queue_id, user_id and unique_key
    user_id    text COLLATE "C" NOT NULL,
    unique_key text NOT NULL,
    run_key    bytea NOT NULL,
    scope      text NOT NULL, -- waiting, open, period
    first_at   timestamptz NOT NULL, -- when its first run entered
    until      timestamptz, -- of scope period: the key is free from then on
    replaced   integer NOT NULL, -- how often another entry has replaced the run
    fire_by    timestamptz, -- debounced: the run starts then at the latest
    PRIMARY KEY (queue_no, hash)
);
CREATE INDEX queue_uniques_run ON queue_uniques (run_key);
CREATE INDEX queue_uniques_until ON queue_uniques (until) WHERE until IS NOT NULL;

-- Of each run of a request, unless all were new: . new, d there already, r there already and
-- replaced.
ALTER TABLE queue_requests ADD COLUMN marks text;

-- +goose Down
ALTER TABLE queue_requests DROP COLUMN marks;
DROP TABLE queue_uniques;
