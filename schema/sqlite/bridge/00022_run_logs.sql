-- +goose Up
-- What runs wrote: the steps of the local executor, and with step '' the output
-- that an executor reported. seq counts the parts of a run. from_byte and to_byte
-- say which bytes of the step's output a part stands for, so that gaps show.
CREATE TABLE run_logs (
    idempotency_key BLOB NOT NULL,
    seq INTEGER NOT NULL,
    step TEXT NOT NULL,
    written_at INTEGER NOT NULL,
    from_byte INTEGER NOT NULL,
    to_byte INTEGER NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (idempotency_key, seq)
) STRICT;
CREATE INDEX run_logs_written ON run_logs (written_at);

ALTER TABLE schedule_runs ADD COLUMN exit_code INTEGER;
ALTER TABLE schedule_runs ADD COLUMN log_url TEXT;

-- +goose Down
ALTER TABLE schedule_runs DROP COLUMN log_url;
ALTER TABLE schedule_runs DROP COLUMN exit_code;
DROP TABLE run_logs;
