package schema_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/schema"
)

// older is a dialect with what the tests of the bridge need to know of it.
type older struct {
	schema.Dialect
	goose    goose.Dialect
	open     func(*testing.T) *sql.DB
	now, key string // SQL of this instant, and of a key made of n
	numbers  string // SQL that ends with a table of the numbers 1 to 12000
	describe []string
}

var (
	number = `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 12000) `
	olders = []older{
		{schema.SQLite, goose.DialectSQLite3, openSQLite, `CAST(unixepoch('subsec') * 1000000 AS INTEGER)`, `unhex(printf('%064x', (n * 7919) % 100003))`, number, describeSQLite},
		{schema.Postgres, goose.DialectPostgres, openPostgres, `now()`, `decode(lpad(to_hex((n * 7919) % 100003), 64, '0'), 'hex')`, number, describePostgres},
	}
)

// describePostgres are queries whose rows are lines about the schema.
var describePostgres = []string{
	`SELECT 'column ' || c.relname || '.' || row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum) || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
	|| coalesce(' collate ' || l.collname, '') || CASE WHEN a.attnotnull THEN ' required' ELSE '' END || ' ' || a.attidentity::text || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_collation l ON l.oid = a.attcollation WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v')`,
	`SELECT 'relation ' || relname || ' ' || relkind::text || ' ' || relpersistence::text || coalesce(' ' || reloptions::text, '') || coalesce(' ' || pg_get_expr(relpartbound, oid), '')
	|| coalesce(' ' || pg_get_partkeydef(oid), '') FROM pg_class WHERE relnamespace = current_schema()::regnamespace`,
	`SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = current_schema()::regnamespace`,
	`SELECT 'index ' || pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE c.relnamespace = current_schema()::regnamespace`,
	`SELECT 'view ' || relname || pg_get_viewdef(oid) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'v'`,
	`SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace`,
	`SELECT 'trigger ' || pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid WHERE c.relnamespace = current_schema()::regnamespace AND NOT tgisinternal`,
	`SELECT 'sequence ' || seqrelid::regclass || ' ' || seqtypid::regtype || coalesce(' of ' || d.refobjid::regclass || '.' || d.refobjsubid, '')
FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid LEFT JOIN pg_depend d ON d.objid = seqrelid AND d.deptype = 'a' AND d.refobjsubid < 0
WHERE c.relnamespace = current_schema()::regnamespace`,
}

var describeSQLite = []string{`SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'goose_%' AND name <> 'sqlite_sequence'`}

var (
	comment = regexp.MustCompile(`--[^\n]*`)
	space   = regexp.MustCompile(`\s+`)
	ofTest  = regexp.MustCompile(`schema_test_\d+_\d+\.`)
	around  = regexp.MustCompile(` ?([(),]) ?`)
)

// described are the lines about the schema of a database, sorted, without comments.
func (o *older) described(t *testing.T, db *sql.DB) (lines []string) {
	t.Helper()
	for _, query := range o.describe {
		for _, text := range texts(t, db, query) {
			text = ofTest.ReplaceAllString(text, "")
			text = space.ReplaceAllString(comment.ReplaceAllString(text, ""), " ")
			lines = append(lines, strings.ReplaceAll(around.ReplaceAllString(text, "$1"), `"`, ""))
		}
	}
	slices.Sort(lines)
	return lines
}

// at27 migrates an empty database to the version before the core file.
func (o *older) at27(t *testing.T, db *sql.DB) {
	t.Helper()
	p, err := goose.NewProvider(o.goose, db, os.DirFS(string(o.Dialect)+"/bridge"), goose.WithVerbose(false), goose.WithAllowOutofOrder(true))
	if err == nil {
		_, err = p.Up(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func do(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%.200s: %v", statement, err)
	}
}

// addSchedule writes a schedule without runs.
func (o *older) addSchedule(t *testing.T, db *sql.DB) {
	t.Helper()
	do(t, db, `INSERT INTO schedules (schedule_id, workflow_id, user_id, version, timezone, dst, jitter_ms, overlap_policy, overlap_key, max_queued,
	catchup_policy, catchup_window_ms, run_timeout_ms, priority, revision, shard, revised_at, created_at, updated_at)
VALUES ('s1', 'w', 'ada', 1, 'UTC', 'vixie', 0, 'allow', 'k', 1, 'none', 1, 1, 0, 1, 0, `+o.now+`, `+o.now+`, `+o.now+`)`)
}

// fill writes 12,000 runs of a schedule; every hundredth is not over, and every
// seventh slot has a second run, which was made by hand.
func (o *older) fill(t *testing.T, db *sql.DB) {
	t.Helper()
	o.addSchedule(t, db)
	slot := o.now + ` + (n - n % 7 / 6)` // n and n - 1 share a slot
	if o.Dialect == schema.Postgres {
		slot = `timestamptz '2026-01-01' + (n - n % 7 / 6) * interval '1 s'`
	}
	do(t, db, o.numbers+`INSERT INTO schedule_runs (idempotency_key, schedule_id, revision, run_at, fire_at, status, trigger, overlap_key, overlap_policy, exclusive,
	max_queued, created_at, updated_at, shard)
SELECT `+o.key+`, 's1', 1, `+slot+`, `+slot+`, CASE WHEN n % 100 = 0 THEN 'PLANNED' WHEN n % 3 = 0 THEN 'FAILED' ELSE 'SUCCESS' END,
	CASE WHEN n % 7 = 6 THEN 'manual' ELSE 'schedule' END, 'ada/k', 'allow', `+map[schema.Dialect]string{schema.Postgres: "false", schema.SQLite: "0"}[o.Dialect]+`,
	1, `+o.now+`, `+o.now+`, 0 FROM numbers`)
}

const runsText = `SELECT schedule_id || ' ' || run_at || ' ' || status || ' ' || trigger || ' ' || coalesce(reason, '') || ' ' || CAST(idempotency_key AS text) FROM schedule_runs`

func TestANewDatabaseIsAsAMigratedOne(t *testing.T) {
	for _, o := range olders {
		t.Run(string(o.Dialect), func(t *testing.T) {
			fresh, migrated := o.open(t), o.open(t)
			migrateTwice(t, fresh, o.Dialect)
			o.at27(t, migrated)
			old := o.described(t, migrated)
			migrateTwice(t, migrated, o.Dialect)
			if d := cmp.Diff(o.described(t, fresh), o.described(t, migrated)); d != "" {
				t.Errorf("(- new, + migrated):\n%s", d)
			}
			for name, db := range map[string]*sql.DB{"new": fresh, "migrated": migrated} {
				if err := schema.Down(t.Context(), db, o.Dialect); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(old, o.described(t, db)); d != "" {
					t.Errorf("%s, back at version 27 (- before, + after):\n%s", name, d)
				}
				o.at27(t, db) // all older files count as applied
				migrateTwice(t, db, o.Dialect)
			}
		})
	}
}

func TestAMoveThatIsInterruptedGoesOnOrBack(t *testing.T) {
	for _, o := range olders {
		t.Run(string(o.Dialect), func(t *testing.T) {
			db := o.open(t)
			o.at27(t, db)
			o.fill(t, db)
			before, old := texts(t, db, runsText), o.described(t, db)
			kill := func() {
				t.Helper()
				ctx, cancel := context.WithCancel(t.Context())
				var seen []int
				_, err := schema.Migrate(ctx, db, o.Dialect, func(moved, total int) {
					cancel()
					seen = append(seen, moved, total)
				})
				if !errors.Is(err, context.Canceled) || !slices.Equal(seen[1:], []int{11880}) || seen[0] == 11880 {
					t.Fatalf("%v after %d of the runs", err, seen)
				}
				if err := schema.Check(t.Context(), db, o.Dialect); !errors.Is(err, schema.ErrUnknownSchema) || !strings.Contains(err.Error(), "interrupted") {
					t.Errorf("check of a half moved database: %v", err)
				}
			}
			kill()
			if err := schema.Down(t.Context(), db, o.Dialect); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(old, o.described(t, db)); d != "" {
				t.Errorf("after the way back (- before, + after):\n%s", d)
			}
			kill()
			kill()
			if _, err := schema.Migrate(t.Context(), db, o.Dialect); err != nil {
				t.Fatal(err)
			}
			for table, want := range map[string]int{"open_runs": 120, "ended_runs": 11880, "schedule_runs": 12000} {
				if got := texts(t, db, `SELECT CAST(count(*) AS text) FROM `+table); got[0] != fmt.Sprint(want) {
					t.Errorf("%s has %s runs, want %d", table, got[0], want)
				}
			}
			do(t, db, `UPDATE ended_runs SET reason = NULL WHERE status = 5 AND reason IS NOT NULL`)
			if d := cmp.Diff(before, trimReasons(texts(t, db, runsText))); d != "" {
				t.Errorf("runs (- before, + after):\n%s", d)
			}
			if err := schema.Check(t.Context(), db, o.Dialect); err != nil {
				t.Error(err)
			}
		})
	}
}

// trimReasons takes back what the migration writes where a reason is missing.
func trimReasons(lines []string) []string {
	for i, l := range lines {
		lines[i] = strings.Replace(l, " unrecorded ", "  ", 1)
	}
	slices.Sort(lines)
	return lines
}

func TestADatabaseInUseIsNotMoved(t *testing.T) {
	for _, o := range olders {
		for name, c := range map[string]struct{ insert, want string }{
			"a worker that is alive":      {`INSERT INTO workers (worker_id, started_at, seen_at) VALUES ('w7', ` + o.now + `, ` + o.now + `)`, "worker w7"},
			"a registrar that is alive":   {`INSERT INTO processes (process_id, host, version, roles, started_at, seen_at) VALUES ('p3', 'h:1', 'v', 'registrar', ` + o.now + `, ` + o.now + `)`, "process p3 (h:1, registrar)"},
			"a worker that died long ago": {`INSERT INTO workers (worker_id, started_at, seen_at) SELECT 'w7', revised_at, revised_at FROM schedules`, ""},
			"a registrar that died too":   {`INSERT INTO processes (process_id, host, version, roles, started_at, seen_at) SELECT 'p3', 'h', 'v', 'r', revised_at, revised_at FROM schedules`, ""},
			"nobody":                      {`SELECT 1`, ""},
		} {
			t.Run(string(o.Dialect)+", "+name, func(t *testing.T) {
				db := o.open(t)
				o.at27(t, db)
				o.addSchedule(t, db)
				long := `revised_at - 3600000000`
				if o.Dialect == schema.Postgres {
					long = `revised_at - interval '1 h'`
				}
				do(t, db, `UPDATE schedules SET revised_at = `+long)
				do(t, db, c.insert)
				old := o.described(t, db)
				_, err := schema.Migrate(t.Context(), db, o.Dialect)
				if c.want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if !errors.Is(err, schema.ErrInUse) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want ErrInUse that names %s", err, c.want)
				}
				if d := cmp.Diff(old, o.described(t, db)); d != "" {
					t.Errorf("something was done (- before, + after):\n%s", d)
				}
			})
		}
	}
}

func TestADatabaseInUseIsNotTakenBack(t *testing.T) {
	for _, o := range olders {
		t.Run(string(o.Dialect), func(t *testing.T) {
			db := o.open(t)
			if err := schema.Down(t.Context(), db, o.Dialect); !errors.Is(err, schema.ErrUnknownSchema) {
				t.Errorf("an empty database: got %v, want ErrUnknownSchema", err)
			}
			migrateTwice(t, db, o.Dialect)
			roles := `["worker"]`
			if o.Dialect == schema.Postgres {
				roles = `{worker}`
			}
			do(t, db, `INSERT INTO instances (instance_id, host, roles, started_at, seen_at) VALUES ('w7', 'h:1', '`+roles+`', `+o.now+`, `+o.now+`)`)
			old := o.described(t, db)
			if err := schema.Down(t.Context(), db, o.Dialect); !errors.Is(err, schema.ErrInUse) || !strings.Contains(err.Error(), "process w7 (h:1)") {
				t.Errorf("got %v, want ErrInUse that names process w7", err)
			}
			if d := cmp.Diff(old, o.described(t, db)); d != "" {
				t.Errorf("something was done (- before, + after):\n%s", d)
			}
		})
	}
}

// Migrations of parallel branches are merged in any order.
func TestAMissingOlderMigrationIsAppliedBeforeTheMove(t *testing.T) {
	t.Parallel()
	db := openSQLite(t)
	olders[0].at27(t, db)
	do(t, db, `DELETE FROM goose_db_version WHERE version_id = 3; ALTER TABLE leaders DROP COLUMN lock_kind;
ALTER TABLE workers DROP COLUMN unfit; ALTER TABLE workers DROP COLUMN host`)
	if err := schema.Check(t.Context(), db, schema.SQLite); !errors.Is(err, schema.ErrUnknownSchema) || !strings.Contains(err.Error(), "run `carillon migrate`") {
		t.Errorf("got %v, want ErrUnknownSchema that says what to run", err)
	}
	migrateTwice(t, db, schema.SQLite)
}

func TestARunWithoutAScheduleStopsTheMove(t *testing.T) {
	for _, o := range olders {
		t.Run(string(o.Dialect), func(t *testing.T) {
			db := o.open(t)
			o.at27(t, db)
			o.fill(t, db)
			do(t, db, `UPDATE schedule_runs SET schedule_id = 'gone' WHERE run_at = (SELECT min(run_at) FROM schedule_runs)`)
			if _, err := schema.Migrate(t.Context(), db, o.Dialect); err == nil || !strings.Contains(err.Error(), "12000 runs") {
				t.Errorf("got %v, want an error with the counts", err)
			}
			do(t, db, `DELETE FROM schedule_runs WHERE schedule_id = 'gone'`)
			migrateTwice(t, db, o.Dialect)
		})
	}
}

func TestTheBridgeFindsTheBucketsThatGoFinds(t *testing.T) {
	for _, o := range olders {
		t.Run(string(o.Dialect), func(t *testing.T) {
			db := o.open(t)
			p, err := goose.NewProvider(o.goose, db, os.DirFS(string(o.Dialect)+"/bridge"), goose.WithVerbose(false))
			if err == nil {
				_, err = p.UpTo(t.Context(), 1)
			}
			if err != nil {
				t.Fatal(err)
			}
			o.addSchedule(t, db)
			keys := []string{"ada/k", "ada/clé/ünïcode-日本", "ada/a/b/c"}
			for n, key := range keys {
				// SQLite cannot hash: it takes the bucket of the schedule.
				do(t, db, fmt.Sprintf(`UPDATE schedules SET shard = %d WHERE %t`, schedule.Bucket(keys[0]), n == 0))
				if o.Dialect == schema.SQLite {
					key = keys[0]
				}
				do(t, db, fmt.Sprintf(`WITH numbers (n) AS (SELECT %d)
INSERT INTO schedule_runs (idempotency_key, schedule_id, revision, run_at, fire_at, status, trigger, overlap_key, overlap_policy, exclusive, max_queued, created_at, updated_at)
SELECT %s, 's1', 1, %s, %[3]s, 'SUCCESS', 'manual', '%s', 'allow', %s, 1, %[3]s, %[3]s FROM numbers`,
					n+1, o.key, o.now, key, map[schema.Dialect]string{schema.Postgres: "false", schema.SQLite: "0"}[o.Dialect]))
			}
			migrateTwice(t, db, o.Dialect)
			for _, found := range texts(t, db, `SELECT shard || ' ' || overlap_key FROM schedule_runs`) {
				bucket, key, _ := strings.Cut(found, " ")
				if want := fmt.Sprint(schedule.Bucket(key)); bucket != want {
					t.Errorf("the run of %s is in bucket %s, want %s", key, bucket, want)
				}
			}
		})
	}
}
