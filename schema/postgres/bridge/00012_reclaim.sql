-- +goose Up
-- What an older term or a lost answer left behind lies on both sides of what is
-- in flight, which a pass need not read.
DROP INDEX schedule_runs_launching;
CREATE INDEX schedule_runs_launching ON schedule_runs (epoch, claimed_until) WHERE lower(status) = 'launching';
-- The newest run of a schedule that was launched is its last_run_at, which is no
-- longer written with each launch.
CREATE INDEX schedule_runs_launched ON schedule_runs (schedule_id, run_at) WHERE launched_at IS NOT NULL;
-- What waits, in a form that is no other index's: schedule_runs_planned holds it,
-- too, and may be read whole where the statistics have it empty. The older
-- schedule_runs_waiting stays for processes that are not restarted yet.
CREATE INDEX schedule_runs_waiting_turn ON schedule_runs (overlap_key, fire_at) WHERE upper(status) = 'PLANNED' AND waiting_since IS NOT NULL;

-- +goose Down
DROP INDEX schedule_runs_waiting_turn;
UPDATE schedules s SET last_run_at = l.run_at
FROM (SELECT schedule_id, max(run_at) AS run_at FROM schedule_runs WHERE launched_at IS NOT NULL GROUP BY schedule_id) l
WHERE s.schedule_id = l.schedule_id AND (s.last_run_at IS NULL OR s.last_run_at < l.run_at);
DROP INDEX schedule_runs_launched;
DROP INDEX schedule_runs_launching;
CREATE INDEX schedule_runs_launching ON schedule_runs (claimed_until) WHERE lower(status) = 'launching';
