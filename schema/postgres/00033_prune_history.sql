-- +goose Up
-- carillon_prune_history deletes up to portion runs that were recorded before an instant,
-- of the first and the last partition: those before first_day and not before last_day.
-- It keeps what was recorded in the last 29 days. The worker's role has no right to
-- delete history itself.
-- +goose StatementBegin
CREATE FUNCTION carillon_prune_history(before timestamptz, portion integer, first_day timestamptz, last_day timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone integer;
BEGIN
    before := least(before, now() - interval '29 days');
    DELETE FROM ended_runs r WHERE r.idempotency_key = ANY(ARRAY(
        SELECT o.idempotency_key FROM ended_runs o WHERE o.recorded_at < before AND (o.run_at < first_day OR o.run_at >= last_day)
        ORDER BY o.recorded_at, o.idempotency_key LIMIT portion)) AND (r.run_at < first_day OR r.run_at >= last_day);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION carillon_prune_history FROM PUBLIC;

-- +goose Down
DROP FUNCTION carillon_prune_history;
