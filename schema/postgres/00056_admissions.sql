-- +goose Up
-- A number of queue_positions, drawn by the visit that admitted the run under the lock of its queue:
-- later visits of the queue have greater ones. 0: none.
ALTER TABLE open_runs ADD COLUMN admission bigint NOT NULL DEFAULT 0;
DROP INDEX open_runs_queue_in_flight;
CREATE INDEX open_runs_queue_in_flight ON open_runs (queue_no, admission) WHERE queue_state >= 4;

-- +goose Down
DROP INDEX open_runs_queue_in_flight;
CREATE INDEX open_runs_queue_in_flight ON open_runs (queue_no, queue_state) WHERE queue_state >= 4;
ALTER TABLE open_runs DROP COLUMN admission;
