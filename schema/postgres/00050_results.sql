-- +goose Up
-- What executors return with the ends of runs. A row is written with the end of its run, never
-- changed, and deleted after expires_at.
CREATE TABLE run_results (
    idempotency_key bytea PRIMARY KEY,
    result          text,    -- JSON as it was sent; NULL: none, or it was refused
    artifacts       text,    -- JSON array of {name, url, bytes, sha256}; NULL: none
    problem         text,    -- why a part was refused; NULL: none was
    expires_at      timestamptz NOT NULL
);
CREATE INDEX run_results_expires ON run_results (expires_at);

-- History is final: only a retry by hand (dead becomes false) and the statuses of late reports, each
-- once, are noted in it. Releases without run_results write exit_code and log_url right after the end,
-- in its transaction: that is still the end.
-- +goose StatementBegin
CREATE FUNCTION carillon_ended_run_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    allowed record := NEW;
BEGIN
    IF NEW.dead IS DISTINCT FROM OLD.dead AND NOT (OLD.dead IS TRUE AND NEW.dead IS FALSE) THEN
        RAISE EXCEPTION 'ended_runs: dead changes only from true to false';
    END IF;
    IF coalesce(NEW.late_reports, 0) & coalesce(OLD.late_reports, 0) <> coalesce(OLD.late_reports, 0) THEN
        RAISE EXCEPTION 'ended_runs: late_reports only gains statuses';
    END IF;
    allowed.dead := OLD.dead;
    allowed.late_reports := OLD.late_reports;
    IF OLD.xmin = pg_current_xact_id()::xid THEN
        allowed.exit_code := OLD.exit_code;
        allowed.log_url := OLD.log_url;
    END IF;
    IF allowed IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'ended_runs: a run that has ended does not change';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ended_runs_final BEFORE UPDATE ON ended_runs FOR EACH ROW EXECUTE FUNCTION carillon_ended_run_is_final();

-- +goose Down
DROP TRIGGER ended_runs_final ON ended_runs;
DROP FUNCTION carillon_ended_run_is_final;
DROP TABLE run_results;
