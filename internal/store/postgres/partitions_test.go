package postgres_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
)

const day = 24 * time.Hour

// history is a store whose ended_runs has a partition for each day from 40 days ago.
type history struct {
	*testing.T
	store *postgres.Store
	url   string
	conn  *pgx.Conn
	term  schedule.Term
	today time.Time
}

func newHistory(t *testing.T) *history {
	t.Helper()
	store, url := fresh(t)
	h := &history{T: t, store: store, url: url, conn: connect(t, url), term: lead(t, store), today: time.Now().UTC().Truncate(day)}
	from := h.days(-40)
	h.exec(`DROP TABLE ended_runs_before, ended_runs_ahead`)
	h.exec(fmt.Sprintf(`CREATE TABLE ended_runs_before PARTITION OF ended_runs FOR VALUES FROM (MINVALUE) TO ('%s')`, from.Format(time.RFC3339)))
	h.exec(fmt.Sprintf(`CREATE TABLE ended_runs_ahead PARTITION OF ended_runs FOR VALUES FROM ('%s') TO (MAXVALUE)`, from.Format(time.RFC3339)))
	for n := -40; n < 0; n++ {
		h.exec(`SELECT carillon_add_partition($1, $2)`, h.days(n), h.days(n+1))
	}
	create(t, store, noon, everySecond("s", noon))
	return h
}

func (h *history) days(n int) time.Time { return h.today.Add(time.Duration(n) * day) }

func (h *history) exec(statement string, args ...any) {
	h.Helper()
	if _, err := h.conn.Exec(h.Context(), statement, args...); err != nil {
		h.Fatalf("%v:\n%s", err, statement)
	}
}

// ended inserts a run of a slot that succeeded, and was recorded, at an instant.
func (h *history) ended(slot, recorded time.Time) {
	h.Helper()
	h.exec(`INSERT INTO ended_runs (idempotency_key, sid, nth, revision, bucket, status, trigger, policy, overlap_key, run_at, fire_at, priority, max_queued, attempt,
		deliveries, failed_attempts, epoch, created_at, claimed_at, launched_at, completed_at, recorded_at)
		SELECT sha256($1::text::bytea), s.sid, 0, 1, 0, 5, 1, 1, 'u/s', $2::timestamptz, $2::timestamptz, 0, 1, 1, 1, 0, 1, $2::timestamptz, $2::timestamptz, $2::timestamptz, $3::timestamptz, $3::timestamptz
		FROM schedules s WHERE s.schedule_id = 's'`, slot.Format(time.RFC3339Nano), slot, recorded)
}

func (h *history) prune(before time.Time) {
	h.Helper()
	if _, err := h.store.Prune(h.Context(), h.term, before, 100); err != nil {
		h.Fatal(err)
	}
}

// partitions are the names, oldest first, with the number of rows.
func (h *history) partitions() (found []string) {
	h.Helper()
	rows, err := h.conn.Query(h.Context(), `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'ended_runs'::regclass AND c.relname ~ '\d' ORDER BY 1`)
	if err == nil {
		found, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		h.Fatal(err)
	}
	return found
}

func (h *history) named(n int) string { return "ended_runs_" + h.days(n).Format("20060102") }

func (h *history) slots() (at []time.Time) {
	h.Helper()
	rows, err := h.conn.Query(h.Context(), `SELECT run_at FROM ended_runs ORDER BY run_at`)
	if err == nil {
		at, err = pgx.CollectRows(rows, pgx.RowTo[time.Time])
	}
	if err != nil {
		h.Fatal(err)
	}
	return at
}

func TestPartitionsAreAddedAheadAndDroppedWhenAllTheirRunsAreOld(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	hour := time.Hour
	old, late, young := h.days(-40).Add(hour), h.days(-39).Add(hour), h.days(-3).Add(hour)
	ahead := h.days(20).Add(hour)
	h.ended(h.days(-50), h.days(-50)) // deleted as a row
	h.ended(old, old)
	h.ended(late, h.days(-2)) // a late backfill keeps its partition
	h.ended(young, young)
	h.ended(ahead, h.days(-1)) // was cancelled long before its time
	h.prune(h.days(-31))
	got := h.partitions()
	// The day of the old run is dropped. The empty days stay until they are the oldest.
	want := []string{h.named(-39)}
	for n := -38; n <= 2; n++ {
		want = append(want, h.named(n))
	}
	if !slices.Equal(got, want) {
		t.Errorf("partitions: %v, want %v", got, want)
	}
	if got, want := h.slots(), []time.Time{late, young, ahead}; !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("runs that stay: %v, want %v", got, want)
	}
	s, err := h.store.GetSchedule(t.Context(), "s")
	if err != nil || !s.LastRunAt.Equal(ahead) {
		t.Errorf("last run at %v, want %v, %v", s.LastRunAt, ahead, err)
	}
	h.ended(old.Add(time.Second), old) // still has a place
}

// To move so many rows would take seconds, in which no run can end.
func TestManyRunsAheadBecomeThePartition(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.exec(`INSERT INTO ended_runs (idempotency_key, sid, nth, revision, bucket, status, trigger, policy, overlap_key, run_at, fire_at, priority, max_queued, attempt,
		deliveries, failed_attempts, epoch, created_at, completed_at, recorded_at)
		SELECT sha256(g::text::bytea), s.sid, g, 1, 0, 5, 1, 1, 'u/s', at, at, 0, 1, 1, 1, 0, 1, at, at, at
		FROM schedules s, generate_series(1, 10001) g, (SELECT $1::timestamptz AS at) a WHERE s.schedule_id = 's'`, h.days(0))
	ahead := h.days(20)
	h.ended(ahead, h.days(-1))
	table := h.number(`SELECT 'ended_runs_ahead'::regclass::oid::bigint`)
	h.exec(`SELECT carillon_add_partition($1, $2)`, h.days(0), h.days(1))
	h.exec(`SELECT carillon_add_partition($1, $2)`, h.days(1), h.days(2))
	if got := h.number(fmt.Sprintf(`SELECT '%s'::regclass::oid::bigint`, h.named(0))); got != table {
		t.Errorf("the partition of the day is table %d, want %d, which was ended_runs_ahead", got, table)
	}
	for table, want := range map[string]int64{h.named(0): 10001, h.named(1): 0, "ended_runs_ahead": 1} {
		if got := h.number(`SELECT count(*) FROM ` + table); got != want {
			t.Errorf("%s has %d runs, want %d", table, got, want)
		}
	}
	h.ended(h.days(1).Add(time.Hour), h.days(0)) // each day still has a place
}

func (h *history) number(query string) (n int64) {
	h.Helper()
	if err := h.conn.QueryRow(h.Context(), query).Scan(&n); err != nil {
		h.Fatal(err)
	}
	return n
}

func TestAScheduleKeepsItsLastRunWhenThePartitionGoes(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	slot := h.days(-40).Add(time.Hour)
	h.ended(slot, slot)
	h.prune(h.days(-31))
	s, err := h.store.GetSchedule(t.Context(), "s")
	if err != nil || !s.LastRunAt.Equal(slot) || len(h.slots()) != 0 {
		t.Errorf("last run at %v, want %v, of %d runs, %v", s.LastRunAt, slot, len(h.slots()), err)
	}
}

func TestAPartitionThatIsUsedIsNotDropped(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.ended(h.days(-39).Add(time.Hour), h.days(-2))
	for name, c := range map[string]struct {
		partition string
		before    time.Time
	}{
		"it has a run that was recorded later":  {h.named(-39), h.days(-31)},
		"it ends later":                         {h.named(-31), h.days(-31).Add(time.Hour)},
		"history of the last 29 days is wanted": {h.named(-20), h.days(-10)},
		"it has no beginning":                   {"ended_runs_before", h.days(-31)},
		"it has no end":                         {"ended_runs_ahead", h.days(-31)},
		"it is another table":                   {"schedules", h.days(-31)},
	} {
		if _, err := h.conn.Exec(t.Context(), `SELECT carillon_drop_partition($1, $2)`, c.partition, c.before); err == nil {
			t.Errorf("%s: %s was dropped", name, c.partition)
		}
	}
}

func TestPruneGoesOnWhileThePartitionsAreLocked(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.ended(h.days(-50), h.days(-50))
	h.exec(`BEGIN; LOCK TABLE ONLY ended_runs IN ACCESS SHARE MODE`)
	h.prune(h.days(-31))
	h.exec(`COMMIT`)
	if got := h.slots(); len(got) != 0 {
		t.Errorf("runs that stay: %v, want none", got)
	}
	if got := h.partitions(); len(got) != 40 {
		t.Errorf("%d partitions, want the 40 of before: %v", len(got), got)
	}
}

func TestAFailedAddOfAPartitionDoesNotStopDrops(t *testing.T) {
	h := newHistory(t)
	h.ended(h.days(-40).Add(time.Hour), h.days(-40).Add(time.Hour))
	h.exec(`CREATE TABLE ` + h.named(0) + ` ()`) // the name of the partition to add
	h.prune(h.days(-35))
	if found := h.partitions(); slices.Contains(found, h.named(-40)) {
		t.Errorf("partitions %v: want %s dropped", found, h.named(-40))
	}
}

func TestRunsOfTheLastDaysAreNotPruned(t *testing.T) {
	h := newHistory(t)
	h.ended(h.days(-60), h.days(-30))
	h.ended(h.days(-50), h.days(-28))
	h.prune(h.days(1))
	if got, want := h.slots(), []time.Time{h.days(-50)}; !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("runs that stay: %v, want %v", got, want)
	}
}

func TestHistoryCountsTheRunsThatHaveNoPartitionOfTheirDay(t *testing.T) {
	h := newHistory(t)
	h.prune(h.days(-40))
	h.ended(h.days(2).Add(time.Hour), h.today)
	h.ended(h.days(5), h.today)
	h.ended(h.days(6), h.today)
	got, err := h.store.History(t.Context())
	if want := (postgres.History{Partitions: 45, Until: h.days(3), Ahead: 2}); err != nil || got != want {
		t.Errorf("History: %+v, %v; want %+v", got, err, want)
	}
}

func TestPartitionsThatStayInUseAreReportedAndCounted(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	var log bytes.Buffer
	h.store = open(t, h.url, postgres.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	old := h.days(-39).Add(time.Hour)
	h.ended(old, old)
	lock := `BEGIN; LOCK TABLE ONLY ended_runs IN ACCESS SHARE MODE`
	for _, c := range []struct {
		name      string
		held      bool
		before    time.Time
		warnings  int
		failures  uint64
		partition int // the last one
	}{
		{"the first try finds a lock held", true, h.days(-40), 0, 1, -1},
		{"so does the second", true, h.days(-40), 0, 2, -1},
		{"the third one is a warning", true, h.days(-40), 1, 3, -1},
		{"the lock is free", false, h.days(-40), 1, 3, 2},
		{"a later one finds a lock held when it drops", true, h.days(-31), 1, 4, 2},
	} {
		if c.held {
			h.exec(lock)
		}
		h.store.ForgetPartitions()
		h.prune(c.before)
		if c.held {
			h.exec(`COMMIT`)
		}
		if got := strings.Count(log.String(), "level=WARN"); got != c.warnings {
			t.Errorf("%s: the log has %d warnings, want %d:\n%s", c.name, got, c.warnings, log.String())
		}
		if got := h.store.PartitionFailures(); got != c.failures {
			t.Errorf("%s: %d failures are counted, want %d", c.name, got, c.failures)
		}
		if found := h.partitions(); found[len(found)-1] != h.named(c.partition) {
			t.Errorf("%s: partitions until %s, want until %s", c.name, found[len(found)-1], h.named(c.partition))
		}
	}
}
