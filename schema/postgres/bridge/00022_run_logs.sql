-- +goose Up
-- What runs wrote: the steps of the local executor, and with step '' the output
-- that an executor reported. seq counts the parts of a run. from_byte and to_byte
-- say which bytes of the step's output a part stands for, so that gaps show.
CREATE TABLE run_logs (
    idempotency_key bytea NOT NULL,
    seq bigint NOT NULL,
    step text NOT NULL,
    written_at timestamptz NOT NULL,
    from_byte bigint NOT NULL,
    to_byte bigint NOT NULL,
    content text NOT NULL,
    PRIMARY KEY (idempotency_key, seq)
);
CREATE INDEX run_logs_written ON run_logs (written_at);

-- As reported; NULL costs a row no byte.
ALTER TABLE schedule_runs ADD COLUMN exit_code integer;
ALTER TABLE schedule_runs ADD COLUMN log_url text;

-- +goose Down
ALTER TABLE schedule_runs DROP COLUMN log_url;
ALTER TABLE schedule_runs DROP COLUMN exit_code;
DROP TABLE run_logs;
