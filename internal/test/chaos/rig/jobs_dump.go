package main

import (
	"database/sql"
	"strings"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// The witnesses of dispatch queues: triggers that record each write of a run that is in a queue,
// and of the limits that such runs use, with its transaction. From when the transactions began
// and committed the checker knows what an admission saw.
const jobWitnessPostgres = `
CREATE TABLE chaos_jobs (seq bigserial PRIMARY KEY, began timestamptz NOT NULL DEFAULT transaction_timestamp(), xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    kind text NOT NULL, key bytea NOT NULL, queue_no integer, before smallint, after smallint,
    priority bigint NOT NULL DEFAULT 0, fair bigint NOT NULL DEFAULT 0, position bigint NOT NULL DEFAULT 0, limits text NOT NULL DEFAULT '', until timestamptz);
CREATE FUNCTION chaos_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO chaos_jobs (kind, key, queue_no, before) VALUES ('run', OLD.idempotency_key, OLD.queue_no, OLD.queue_state);
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.queue_state = NEW.queue_state AND OLD.effective_priority = NEW.effective_priority AND OLD.fair_order IS NOT DISTINCT FROM NEW.fair_order
        AND OLD.position_key = NEW.position_key AND OLD.limits = NEW.limits THEN
        RETURN NULL;
    END IF;
    INSERT INTO chaos_jobs (kind, key, queue_no, before, after, priority, fair, position, limits)
    VALUES ('run', NEW.idempotency_key, NEW.queue_no, CASE WHEN TG_OP = 'UPDATE' THEN OLD.queue_state END, NEW.queue_state,
        NEW.effective_priority, coalesce(NEW.fair_order, 0), NEW.position_key, NEW.limits);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_job_new AFTER INSERT ON open_runs FOR EACH ROW WHEN (NEW.queue_no IS NOT NULL) EXECUTE FUNCTION chaos_job();
CREATE TRIGGER chaos_job_up AFTER UPDATE ON open_runs FOR EACH ROW WHEN (NEW.queue_no IS NOT NULL) EXECUTE FUNCTION chaos_job();
CREATE TRIGGER chaos_job_gone AFTER DELETE ON open_runs FOR EACH ROW WHEN (OLD.queue_no IS NOT NULL) EXECUTE FUNCTION chaos_job();
CREATE FUNCTION chaos_use() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO chaos_jobs (kind, key, before, limits)
        SELECT 'use', OLD.used_by, 1, limit_id || CASE WHEN keyed THEN '=' || OLD.limit_key ELSE '' END FROM limits WHERE limit_no = OLD.limit_no;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO chaos_jobs (kind, key, after, limits)
        SELECT 'use', NEW.used_by, 1, limit_id || CASE WHEN keyed THEN '=' || NEW.limit_key ELSE '' END FROM limits WHERE limit_no = NEW.limit_no;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_use AFTER INSERT OR UPDATE OR DELETE ON limit_uses FOR EACH ROW EXECUTE FUNCTION chaos_use();
CREATE FUNCTION chaos_reserve() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE was smallint; now_is smallint; row_ record;
BEGIN
    IF TG_OP <> 'INSERT' THEN was := CASE WHEN OLD.granted_at IS NULL THEN 2 ELSE 5 END; row_ := OLD; END IF;
    IF TG_OP <> 'DELETE' THEN now_is := CASE WHEN NEW.granted_at IS NULL THEN 2 ELSE 5 END; row_ := NEW; END IF;
    INSERT INTO chaos_jobs (kind, key, queue_no, before, after, position, limits, until)
    VALUES ('reserve', row_.reservation_id, row_.queue_no, was, now_is, row_.position_key, row_.limits, row_.ends_at);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_reserve AFTER INSERT OR UPDATE OR DELETE ON reservations FOR EACH ROW EXECUTE FUNCTION chaos_reserve();`

var jobWitnessSQLite = strings.NewReplacer(
	"USE_", "INSERT INTO chaos_jobs (began, kind, key, before, after, limits)\nSELECT "+witnessNow+", 'use',",
	"RUN_", "INSERT INTO chaos_jobs (began, kind, key, queue_no, before, after, priority, fair, position, limits) VALUES ("+witnessNow+", 'run',",
	"RESERVE_", "INSERT INTO chaos_jobs (began, kind, key, queue_no, before, after, position, limits, until) VALUES ("+witnessNow+", 'reserve',",
	"NEW_", "NEW.effective_priority, coalesce(NEW.fair_order, 0), NEW.position_key, NEW.limits); END;",
).Replace(`
CREATE TABLE chaos_jobs (seq INTEGER PRIMARY KEY, began INTEGER, kind TEXT, key BLOB, queue_no INTEGER, before INTEGER, after INTEGER,
    priority INTEGER DEFAULT 0, fair INTEGER DEFAULT 0, position INTEGER DEFAULT 0, limits TEXT DEFAULT '', until INTEGER);
CREATE TRIGGER chaos_job_new AFTER INSERT ON open_runs WHEN NEW.queue_no IS NOT NULL BEGIN
    RUN_ NEW.idempotency_key, NEW.queue_no, NULL, NEW.queue_state, NEW_
CREATE TRIGGER chaos_job_up AFTER UPDATE ON open_runs WHEN NEW.queue_no IS NOT NULL AND (OLD.queue_state <> NEW.queue_state OR OLD.effective_priority <> NEW.effective_priority
    OR OLD.fair_order IS NOT NEW.fair_order OR OLD.position_key <> NEW.position_key OR OLD.limits <> NEW.limits) BEGIN
    RUN_ NEW.idempotency_key, NEW.queue_no, OLD.queue_state, NEW.queue_state, NEW_
CREATE TRIGGER chaos_job_gone AFTER DELETE ON open_runs WHEN OLD.queue_no IS NOT NULL BEGIN
    RUN_ OLD.idempotency_key, OLD.queue_no, OLD.queue_state, NULL, 0, 0, 0, ''); END;
CREATE TRIGGER chaos_use_new AFTER INSERT ON limit_uses BEGIN
    USE_ NEW.used_by, NULL, 1, limit_id || CASE WHEN keyed THEN '=' || NEW.limit_key ELSE '' END FROM limits WHERE limit_no = NEW.limit_no; END;
CREATE TRIGGER chaos_use_up AFTER UPDATE ON limit_uses BEGIN
    USE_ OLD.used_by, 1, NULL, limit_id || CASE WHEN keyed THEN '=' || OLD.limit_key ELSE '' END FROM limits WHERE limit_no = OLD.limit_no;
    USE_ NEW.used_by, NULL, 1, limit_id || CASE WHEN keyed THEN '=' || NEW.limit_key ELSE '' END FROM limits WHERE limit_no = NEW.limit_no; END;
CREATE TRIGGER chaos_use_gone AFTER DELETE ON limit_uses BEGIN
    USE_ OLD.used_by, 1, NULL, limit_id || CASE WHEN keyed THEN '=' || OLD.limit_key ELSE '' END FROM limits WHERE limit_no = OLD.limit_no; END;
CREATE TRIGGER chaos_reserve_new AFTER INSERT ON reservations BEGIN
    RESERVE_ NEW.reservation_id, NEW.queue_no, NULL, iif(NEW.granted_at IS NULL, 2, 5), NEW.position_key, NEW.limits, NEW.ends_at); END;
CREATE TRIGGER chaos_reserve_up AFTER UPDATE ON reservations BEGIN
    RESERVE_ NEW.reservation_id, NEW.queue_no, iif(OLD.granted_at IS NULL, 2, 5), iif(NEW.granted_at IS NULL, 2, 5), NEW.position_key, NEW.limits, NEW.ends_at); END;
CREATE TRIGGER chaos_reserve_gone AFTER DELETE ON reservations BEGIN
    RESERVE_ OLD.reservation_id, OLD.queue_no, iif(OLD.granted_at IS NULL, 2, 5), NULL, OLD.position_key, OLD.limits, OLD.ends_at); END;`)

func (s *site) jobWitness() string {
	if s.dose.store == "sqlite" {
		return jobWitnessSQLite
	}
	return jobWitnessPostgres
}

// jobTables are what is dumped of queues. A transaction that was rolled back has left nothing.
func (s *site) jobTables() []dumped {
	writes := `SELECT j.seq, TIME(j.began), TIME(pg_xact_commit_timestamp(j.xid::xid)), j.xid::text::bigint, j.kind, HEX(j.key), coalesce(q.queue_id, ''),
    coalesce(j.before, 0), coalesce(j.after, 0), j.priority, j.fair, j.position, j.limits, TIME(j.until)
FROM chaos_jobs j LEFT JOIN queues q USING (queue_no) ORDER BY j.seq`
	if s.dose.store == "sqlite" {
		writes = strings.NewReplacer("TIME(pg_xact_commit_timestamp(j.xid::xid))", "j.began", "j.xid::text::bigint", "0").Replace(writes)
	}
	return []dumped{
		{record.JobsFile, `SELECT HEX(idempotency_key), queue_id, coalesce(group_id, ''), coalesce(group_seq, 0), status, coalesce(reason, ''), trigger, attempt,
    coalesce(max_attempts, 0), coalesce(HEX(retry_of), ''), coalesce(failure_class, ''), coalesce(dead, false), TIME(cancel_requested_at), TIME(completed_at)
FROM schedule_runs WHERE queue_id IS NOT NULL`, scanJob},
		{record.JobWritesFile, writes, scanJobWrite},
		{record.GroupsFile, `SELECT group_id, mode, state, members, succeeded, failed, skipped, cancelled FROM queue_groups ORDER BY group_no`, scanGroup},
		{record.MinutesFile, `SELECT q.queue_id, CAST(sum(CASE WHEN m.ended THEN 0 ELSE m.n END) AS bigint), CAST(sum(CASE WHEN m.ended THEN m.n ELSE 0 END) AS bigint)
FROM queue_minutes m JOIN queues q ON q.queue_no = m.queue_no GROUP BY q.queue_id ORDER BY q.queue_id`, scanMinutes},
	}
}

func scanJob(rows *sql.Rows) (any, error) {
	var j record.Job
	var asked, completed instant
	err := rows.Scan(&j.Key, &j.Queue, &j.Group, &j.GroupSeq, &j.Status, &j.Reason, &j.Trigger, &j.Attempt, &j.MaxAttempts, &j.RetryOf,
		&j.FailureClass, &j.Dead, &asked, &completed)
	j.Key, j.RetryOf = strings.ToLower(j.Key), strings.ToLower(j.RetryOf)
	j.CancelAsked, j.CompletedAt = asked.time(), completed.time()
	return j, err
}

// queueStates are the words of queue_state; 0 is outside of queues, and of a use free.
var queueStates = []string{"", "delayed", "waiting", "chained", "dispatching", "running"}

func scanJobWrite(rows *sql.Rows) (any, error) {
	var w record.JobWrite
	var began, committed, until instant
	var before, after int
	err := rows.Scan(&w.Seq, &began, &committed, &w.Tx, &w.Kind, &w.Key, &w.Queue, &before, &after, &w.Priority, &w.Fair, &w.Position, &w.Limits, &until)
	w.Until = until.time()
	w.Key, w.Began, w.Committed = strings.ToLower(w.Key), began.time(), committed.time()
	w.Before, w.After = queueStates[before], queueStates[after]
	if w.Kind == record.UseWrite && w.Before != "" {
		w.Before = "used"
	}
	if w.Kind == record.UseWrite && w.After != "" {
		w.After = "used"
	}
	return w, err
}

func scanGroup(rows *sql.Rows) (any, error) {
	var g record.Group
	err := rows.Scan(&g.GroupID, &g.Mode, &g.State, &g.Members, &g.Succeeded, &g.Failed, &g.Skipped, &g.Cancelled)
	return g, err
}

func scanMinutes(rows *sql.Rows) (any, error) {
	var m record.Minutes
	err := rows.Scan(&m.Queue, &m.Starts, &m.Ends)
	return m, err
}
