package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // database/sql driver "pgx"
	_ "modernc.org/sqlite"             // database/sql driver "sqlite"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// The witnesses: triggers that record each write of a run, its writer, and the newest
// epoch of the row's shard that the transaction saw. SHARDS is replaced by the number of
// shards; shard s has the buckets from ceil(1024 s/SHARDS). A later dump cannot show
// this. The end of a run is a deletion from open_runs and an insertion into ended_runs by
// one transaction: both become one write.
const witnessPostgres = `
CREATE TABLE chaos_terms (seq bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
    shard integer NOT NULL, holder text NOT NULL, epoch bigint NOT NULL, before bigint NOT NULL, writer text NOT NULL);
CREATE TABLE chaos_writes (seq bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), writer text NOT NULL,
    key bytea NOT NULL, trigger text NOT NULL, before text NOT NULL, after text NOT NULL, epoch bigint NOT NULL, holder text NOT NULL, leader bigint NOT NULL,
    schedule_id text NOT NULL, bucket integer NOT NULL, xid xid8 NOT NULL DEFAULT pg_current_xact_id());
CREATE INDEX chaos_writes_key ON chaos_writes (key);
CREATE INDEX chaos_terms_shard ON chaos_terms (shard, seq);
CREATE FUNCTION chaos_term() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE old_epoch bigint := 0;
BEGIN
    IF TG_OP = 'UPDATE' THEN old_epoch := OLD.epoch; END IF;
    IF NEW.epoch <> old_epoch THEN
        INSERT INTO chaos_terms (shard, holder, epoch, before, writer)
        VALUES (NEW.shard, NEW.holder, NEW.epoch, old_epoch, current_setting('application_name'));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_term AFTER INSERT OR UPDATE ON leaders FOR EACH ROW EXECUTE FUNCTION chaos_term();
CREATE FUNCTION chaos_write() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE newest chaos_terms; me text := current_setting('application_name'); was text := ''; now_is text := ''; row_ record;
    words text[] := ARRAY['PLANNED','LAUNCHING','ENQUEUED','STARTED','SUCCESS','FAILED','SKIPPED','CANCELLED'];
BEGIN
    IF TG_OP <> 'INSERT' THEN was := words[OLD.status]; row_ := OLD; END IF;
    IF TG_OP <> 'DELETE' THEN now_is := words[NEW.status]; row_ := NEW; END IF;
    IF row_.queue_no IS NOT NULL THEN RETURN NULL; END IF; -- see jobs_dump.go
    SELECT * INTO newest FROM chaos_terms WHERE shard = row_.bucket * SHARDS / 1024 ORDER BY seq DESC LIMIT 1;
    IF TG_OP = 'UPDATE' AND was = now_is AND OLD.epoch = NEW.epoch AND me = newest.writer THEN RETURN NULL; END IF;
    IF TG_OP = 'INSERT' THEN
        UPDATE chaos_writes SET after = now_is WHERE key = row_.idempotency_key AND xid = pg_current_xact_id() AND after = '';
        IF FOUND THEN RETURN NULL; END IF;
    ELSIF TG_OP = 'DELETE' THEN
        -- Inserted before in this transaction, or inserted although history has its key.
        UPDATE chaos_writes SET before = was WHERE key = row_.idempotency_key AND xid = pg_current_xact_id() AND before = '' AND after <> 'PLANNED';
        IF FOUND THEN RETURN NULL; END IF;
        DELETE FROM chaos_writes WHERE key = row_.idempotency_key AND xid = pg_current_xact_id() AND before = '';
        IF FOUND THEN RETURN NULL; END IF;
    END IF;
    INSERT INTO chaos_writes (writer, key, trigger, before, after, epoch, holder, leader, schedule_id, bucket)
    SELECT me, row_.idempotency_key, (ARRAY['schedule','catchup','manual','backfill','retry'])[row_.trigger], was, now_is, row_.epoch,
        coalesce(newest.writer, ''), coalesce(newest.epoch, 0), s.schedule_id, row_.bucket
    FROM schedules s WHERE s.sid = row_.sid;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_write AFTER INSERT OR UPDATE OR DELETE ON open_runs FOR EACH ROW EXECUTE FUNCTION chaos_write();
CREATE TRIGGER chaos_write AFTER INSERT OR DELETE ON ended_runs FOR EACH ROW EXECUTE FUNCTION chaos_write();`

const witnessNow = `CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)`

// wordOf is the word of a code in SQL.
func wordOf(column string, words ...string) string {
	var out strings.Builder
	out.WriteString("CASE " + column)
	for i, word := range words {
		fmt.Fprintf(&out, " WHEN %d THEN '%s'", i+1, word)
	}
	return out.String() + " END"
}

var (
	statuses = []string{"PLANNED", "LAUNCHING", "ENQUEUED", "STARTED", "SUCCESS", "FAILED", "SKIPPED", "CANCELLED"}
	triggers = []string{"schedule", "catchup", "manual", "backfill", "retry"}
)

// On SQLite there is one process, so all writes are its own.
var witnessSQLite = strings.NewReplacer("NOW_", witnessNow,
	"STATUS_NEW", wordOf("NEW.status", statuses...), "STATUS_OLD", wordOf("OLD.status", statuses...),
	"TRIGGER_NEW", wordOf("NEW.trigger", triggers...), "TRIGGER_OLD", wordOf("OLD.trigger", triggers...),
	"WRITE_", "INSERT INTO chaos_writes (at, writer, key, trigger, before, after, epoch, holder, leader, schedule_id, bucket)\nSELECT "+witnessNow+", 'worker-1',",
).Replace(`
CREATE TABLE chaos_terms (seq INTEGER PRIMARY KEY, at INTEGER, shard INTEGER, holder TEXT, epoch INTEGER, before INTEGER, writer TEXT);
CREATE TABLE chaos_writes (seq INTEGER PRIMARY KEY, at INTEGER, writer TEXT, key BLOB, trigger TEXT, before TEXT, after TEXT, epoch INTEGER, holder TEXT, leader INTEGER,
    schedule_id TEXT, bucket INTEGER);
CREATE TRIGGER chaos_term_new AFTER INSERT ON leaders WHEN NEW.epoch <> 0 BEGIN
    INSERT INTO chaos_terms (at, shard, holder, epoch, before, writer) VALUES (NOW_, NEW.shard, NEW.holder, NEW.epoch, 0, 'worker-1'); END;
CREATE TRIGGER chaos_term_up AFTER UPDATE ON leaders WHEN NEW.epoch <> OLD.epoch BEGIN
    INSERT INTO chaos_terms (at, shard, holder, epoch, before, writer) VALUES (NOW_, NEW.shard, NEW.holder, NEW.epoch, OLD.epoch, 'worker-1'); END;
CREATE INDEX chaos_writes_key ON chaos_writes (key);
CREATE TRIGGER chaos_write_new AFTER INSERT ON open_runs WHEN NEW.queue_no IS NULL BEGIN
    WRITE_ NEW.idempotency_key, TRIGGER_NEW, '', STATUS_NEW, NEW.epoch, '', 0, schedule_id, NEW.bucket FROM schedules WHERE sid = NEW.sid; END;
CREATE TRIGGER chaos_write_up AFTER UPDATE ON open_runs WHEN NEW.queue_no IS NULL AND (NEW.status <> OLD.status OR NEW.epoch <> OLD.epoch) BEGIN
    WRITE_ NEW.idempotency_key, TRIGGER_NEW, STATUS_OLD, STATUS_NEW, NEW.epoch, '', 0, schedule_id, NEW.bucket FROM schedules WHERE sid = NEW.sid; END;
CREATE TRIGGER chaos_write_gone AFTER DELETE ON open_runs WHEN OLD.queue_no IS NULL BEGIN
    WRITE_ OLD.idempotency_key, TRIGGER_OLD, STATUS_OLD, '', OLD.epoch, '', 0, schedule_id, OLD.bucket FROM schedules WHERE sid = OLD.sid; END;
CREATE TRIGGER chaos_write_end AFTER INSERT ON ended_runs WHEN NEW.queue_no IS NULL BEGIN
    UPDATE chaos_writes SET after = STATUS_NEW
    WHERE seq = (SELECT max(seq) FROM chaos_writes WHERE key = NEW.idempotency_key) AND after = '';
    WRITE_ NEW.idempotency_key, TRIGGER_NEW, '', STATUS_NEW, NEW.epoch, '', 0, schedule_id, NEW.bucket FROM schedules
    WHERE sid = NEW.sid AND changes() = 0; END;
CREATE TRIGGER chaos_write_pruned AFTER DELETE ON ended_runs WHEN OLD.queue_no IS NULL BEGIN
    WRITE_ OLD.idempotency_key, TRIGGER_OLD, STATUS_OLD, '', OLD.epoch, '', 0, schedule_id, OLD.bucket FROM schedules WHERE sid = OLD.sid; END;`)

func (s *site) watchWrites(ctx context.Context) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close()
	witness := strings.ReplaceAll(witnessPostgres, "SHARDS", strconv.Itoa(s.dose.shards))
	if s.dose.store == "sqlite" {
		witness = witnessSQLite
	}
	if s.dose.jobs {
		witness += s.jobWitness()
	}
	if _, err := db.ExecContext(ctx, witness); err != nil {
		return fmt.Errorf("set up the witnesses: %w", err)
	}
	return nil
}

// watchView looks until ctx ends, each second, whether the view has a run twice.
func (s *site) watchView(ctx context.Context) error {
	out, err := record.NewWriter(s.folder, record.TwiceFile)
	if err != nil {
		return err
	}
	defer out.Close()
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close()
	for ; ctx.Err() == nil; sleep(ctx, time.Second) {
		var runs, keys int
		if db.QueryRowContext(ctx, `SELECT count(*), count(DISTINCT idempotency_key) FROM schedule_runs`).Scan(&runs, &keys) != nil || runs == keys {
			continue // the database is away from time to time
		}
		var key string
		if err := db.QueryRowContext(ctx, s.dialect(sqlTwice)).Scan(&key); err != nil && !errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err := out.Write(record.Twice{At: time.Now(), Key: strings.ToLower(key)}); err != nil {
			return err
		}
	}
	return nil
}

const sqlTwice = `SELECT HEX(idempotency_key) FROM schedule_runs GROUP BY idempotency_key HAVING count(*) > 1 LIMIT 1`

// inFlight counts runs and reservations that have not ended.
func (s *site) inFlight(ctx context.Context) (n int, err error) {
	db, err := s.open()
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM open_runs) + (SELECT count(*) FROM reservations)`).Scan(&n)
	return n, err
}

// integrity is SQLite's own opinion of its file.
func (s *site) integrity(ctx context.Context) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check`).Scan(&verdict); err != nil || verdict != "ok" {
		return fmt.Errorf("integrity_check says %q: %w", verdict, err)
	}
	return nil
}

// instant is a column of microseconds that may be NULL.
type instant sql.NullInt64

func (i *instant) Scan(value any) error { return (*sql.NullInt64)(i).Scan(value) }

func (i instant) time() time.Time {
	if !i.Valid {
		return time.Time{}
	}
	return time.UnixMicro(i.Int64).UTC()
}

// dialect turns a statement into the store's own: TIME(x) is microseconds,
// HEX(x) lower-case hex.
func (s *site) dialect(statement string) string {
	if s.dose.store == "sqlite" {
		return strings.NewReplacer("TIME(", "(", "HEX(", "hex(").Replace(statement)
	}
	return strings.NewReplacer("TIME(", "chaos_micros(", "HEX(", "chaos_hex(").Replace(statement)
}

const dialectPostgres = `
CREATE OR REPLACE FUNCTION chaos_micros(t timestamptz) RETURNS bigint LANGUAGE sql AS 'SELECT (extract(epoch FROM t) * 1000000)::bigint';
CREATE OR REPLACE FUNCTION chaos_hex(b bytea) RETURNS text LANGUAGE sql AS $$SELECT encode(b, 'hex')$$;`

// dumped is a table that is written down.
type dumped struct {
	file, query string
	scan        func(*sql.Rows) (any, error)
}

// dump writes down what the database holds at the end.
func (s *site) dump(ctx context.Context) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close()
	if s.dose.store != "sqlite" {
		if _, err := db.ExecContext(ctx, dialectPostgres); err != nil {
			return err
		}
	}
	// Schedules without a spec, which are made for jobs, are nobody's act.
	const registered = ` schedule_id NOT IN (SELECT schedule_id FROM schedules WHERE managed_by LIKE 'queue:%') `
	committed := `TIME(pg_xact_commit_timestamp(xid::xid))`
	if s.dose.store == "sqlite" {
		committed = "NULL"
	}
	tables := []dumped{
		{record.RunsFile, `SELECT HEX(idempotency_key), schedule_id, revision, TIME(run_at), TIME(fire_at), status, coalesce(reason, ''), trigger,
    overlap_key, overlap_policy, deliveries, epoch, shard, TIME(waiting_since), TIME(created_at), TIME(launched_at), TIME(started_at), TIME(completed_at),
    TIME(cancel_requested_at) FROM schedule_runs WHERE queue_id IS NULL`, scanRun},
		{record.EventsFile, `SELECT event_id, schedule_id, TIME(time), kind, TIME(from_at), TIME(to_at), count FROM schedule_events WHERE` + registered + `ORDER BY event_id`, scanEvent},
		{record.WritesFile, `SELECT seq, TIME(at), ` + committed + `, writer, HEX(key), trigger, before, after, epoch, holder, leader, schedule_id, bucket FROM chaos_writes ORDER BY seq`, scanWrite},
		{record.TermsFile, `SELECT seq, TIME(at), shard, holder, epoch, before, writer FROM chaos_terms ORDER BY seq`, scanTerm},
		{record.FailingFile, `SELECT s.schedule_id, TIME(s.created_at), f.schedule_id IS NOT NULL FROM schedules s
    LEFT JOIN schedule_failures f ON f.schedule_id = s.schedule_id WHERE s.deleted_at IS NULL AND s.` + registered[1:] + `ORDER BY s.schedule_id`, scanFailing},
		{record.ReignsFile, `SELECT shard, epoch, TIME(started_at), TIME(ended_at) FROM leader_terms ORDER BY shard, started_at, epoch`, scanReign},
		{record.RevisionsFile, `SELECT schedule_id, revision, TIME(created_at) FROM schedule_revisions WHERE` + registered + `ORDER BY schedule_id, revision`, scanRevision},
	}
	if s.dose.jobs {
		tables = append(tables, s.jobTables()...)
	}
	for _, table := range tables {
		if err := s.dumpTable(ctx, db, table.file, table.query, table.scan); err != nil {
			return fmt.Errorf("dump %s: %w", table.file, err)
		}
	}
	return nil
}

func (s *site) dumpTable(ctx context.Context, db *sql.DB, file, query string, scan func(*sql.Rows) (any, error)) error {
	out, err := record.NewWriter(s.folder, file)
	if err != nil {
		return err
	}
	defer out.Close()
	rows, err := db.QueryContext(ctx, s.dialect(query))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		line, err := scan(rows)
		if err != nil {
			return err
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	return rows.Err()
}

func scanRun(rows *sql.Rows) (any, error) {
	var r record.Run
	var runAt, fireAt, waiting, created, launched, started, completed, asked instant
	err := rows.Scan(&r.Key, &r.ScheduleID, &r.Revision, &runAt, &fireAt, &r.Status, &r.Reason, &r.Trigger, &r.OverlapKey, &r.Overlap,
		&r.Deliveries, &r.Epoch, &r.Bucket, &waiting, &created, &launched, &started, &completed, &asked)
	r.Key = strings.ToLower(r.Key)
	r.RunAt, r.FireAt, r.WaitingSince, r.CreatedAt = runAt.time(), fireAt.time(), waiting.time(), created.time()
	r.LaunchedAt, r.StartedAt, r.CompletedAt, r.CancelAsked = launched.time(), started.time(), completed.time(), asked.time()
	return r, err
}

func scanEvent(rows *sql.Rows) (any, error) {
	var e record.Event
	var at, from, to instant
	err := rows.Scan(&e.ID, &e.ScheduleID, &at, &e.Kind, &from, &to, &e.Count)
	e.Time, e.From, e.To = at.time(), from.time(), to.time()
	return e, err
}

func scanWrite(rows *sql.Rows) (any, error) {
	var w record.Write
	var at, committed instant
	err := rows.Scan(&w.Seq, &at, &committed, &w.Writer, &w.Key, &w.Trigger, &w.Before, &w.After, &w.Epoch, &w.Holder, &w.Leader, &w.ScheduleID, &w.Bucket)
	w.Key, w.At, w.Committed = strings.ToLower(w.Key), at.time(), committed.time()
	return w, err
}

func scanTerm(rows *sql.Rows) (any, error) {
	var t record.Term
	var at instant
	err := rows.Scan(&t.Seq, &at, &t.Shard, &t.Holder, &t.Epoch, &t.Before, &t.Writer)
	t.At = at.time()
	return t, err
}

func scanFailing(rows *sql.Rows) (any, error) {
	var f record.Failing
	var at instant
	err := rows.Scan(&f.ScheduleID, &at, &f.Failing)
	f.CreatedAt = at.time()
	return f, err
}

func scanReign(rows *sql.Rows) (any, error) {
	var t record.Reign
	var started, ended instant
	err := rows.Scan(&t.Shard, &t.Epoch, &started, &ended)
	t.StartedAt, t.EndedAt = started.time(), ended.time()
	return t, err
}

func scanRevision(rows *sql.Rows) (any, error) {
	var r record.Revision
	var at instant
	err := rows.Scan(&r.ScheduleID, &r.Revision, &at)
	r.CreatedAt = at.time()
	return r, err
}
