-- +goose Up
-- The order of fair queues. Runs of a key draw a fair_order when they begin to wait: lower goes
-- first within a priority. 0: the run has drawn none, or its queue is not fair; NULL: it is in no
-- queue.
ALTER TABLE open_runs ADD COLUMN fair_key text COLLATE "C";
ALTER TABLE open_runs ADD COLUMN fair_order bigint DEFAULT 0;
ALTER TABLE ended_runs ADD COLUMN fair_key text COLLATE "C";
-- With a queue: what the runs of a schedule count for; NULL: the owner.
ALTER TABLE schedules ADD COLUMN fair_key text COLLATE "C";

-- What each key has drawn last. A transaction that draws holds the row, so that two runs of a key do not get
-- the same fair_order.
CREATE TABLE queue_shares (
    queue_no           integer NOT NULL,
    effective_priority integer NOT NULL,
    fair_key           text COLLATE "C" NOT NULL,
    fair_order         bigint NOT NULL,
    drawn_at           timestamptz NOT NULL,
    PRIMARY KEY (queue_no, effective_priority, fair_key)
);
CREATE INDEX queue_shares_drawn ON queue_shares (drawn_at);

-- The greatest fair_order of a run that was admitted. The free space keeps the updates on one page.
CREATE TABLE fair_clocks (
    queue_no           integer NOT NULL,
    effective_priority integer NOT NULL,
    fair_clock         bigint NOT NULL,
    PRIMARY KEY (queue_no, effective_priority)
) WITH (fillfactor = 10);

DROP INDEX open_runs_ready;
CREATE INDEX open_runs_ready ON open_runs (queue_no, effective_priority, fair_order, position_key, idempotency_key) WHERE queue_state = 2;
DROP INDEX open_runs_limits;
CREATE INDEX open_runs_limits ON open_runs (queue_no, limits, effective_priority, fair_order, position_key) WHERE queue_state = 2;
-- The last run of a key that waits.
CREATE INDEX open_runs_fair ON open_runs (queue_no, effective_priority, fair_key, fair_order) WHERE queue_state = 2 AND fair_key IS NOT NULL;

-- +goose Down
-- Older releases know no fair queues: runs go in the order in which they entered.
DROP INDEX open_runs_fair;
DROP INDEX open_runs_limits;
CREATE INDEX open_runs_limits ON open_runs (queue_no, limits, effective_priority, position_key) WHERE queue_state = 2;
DROP INDEX open_runs_ready;
CREATE INDEX open_runs_ready ON open_runs (queue_no, effective_priority, position_key, idempotency_key) WHERE queue_state = 2;
DROP TABLE fair_clocks;
DROP TABLE queue_shares;
ALTER TABLE schedules DROP COLUMN fair_key;
ALTER TABLE ended_runs DROP COLUMN fair_key;
ALTER TABLE open_runs DROP COLUMN fair_order;
ALTER TABLE open_runs DROP COLUMN fair_key;
