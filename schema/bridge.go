package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
)

// The bridge brings a database of the versions 1 to 27 to version 28, where runs
// are in open_runs and ended_runs. The files of the folder bridge/ lead to version
// 27. The move after them is not one transaction: history can have millions of rows.
// Its first step writes version 28, so that no older binary uses a half moved
// database; it ends when the table schedule_runs has become a view.

// core is the version of the file that makes a whole new database.
const core = 28

// portion is how many runs of history one transaction moves.
const portion = 5000

// From this version on the table instances has every process.
const allInstances = 31

// A process counts as running for this long after its last heartbeat. In the table
// processes they have one every ten seconds, else every second.
const (
	workerWindow  = 10 * time.Second
	processWindow = 25 * time.Second
)

// ErrInUse says that a process of Carillon still uses the database.
var ErrInUse = errors.New("the database is in use")

// Progress is called after each portion of history with the runs that are moved and
// the runs that there are.
type Progress func(moved, total int)

// bridge is a move under way, in either direction.
type bridge struct {
	db       *sql.DB
	dialect  Dialect
	version  int64
	portion  int
	progress Progress
}

// up brings a database of an older version, or one with a move that was interrupted,
// to the core. It returns how many steps it took; 0: nothing was to do.
func (b *bridge) up(ctx context.Context) (steps int, err error) {
	unfinished, err := b.unfinished(ctx)
	if err != nil || b.version == 0 || b.version >= core && !unfinished {
		return 0, err
	}
	if err := b.refuseInUse(ctx); err != nil {
		return 0, err
	}
	if b.version < core {
		if steps, err = b.prepare(ctx); err != nil {
			return steps, err
		}
	}
	if err := b.moveHistory(ctx); err != nil {
		return steps, fmt.Errorf("move history (run it again to go on): %w", err)
	}
	if err := b.run(ctx, b.finish); err != nil {
		return steps, fmt.Errorf("move open runs: %w", err)
	}
	return steps + 1, nil
}

// unfinished reports whether a move was begun and is not at its end.
func (b *bridge) unfinished(ctx context.Context) (bool, error) {
	if b.version < core {
		return false, nil
	}
	query := `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schedule_runs'`
	if b.dialect == Postgres {
		query = `SELECT count(*) FROM pg_class WHERE oid = to_regclass('schedule_runs') AND relkind = 'r'`
	}
	tables, err := b.count(ctx, query)
	return tables > 0, err
}

// refuseInUse answers ErrInUse with the name of a process that still has heartbeats.
func (b *bridge) refuseInUse(ctx context.Context) error {
	since := `seen_at > clock_timestamp() - make_interval(secs => $1)`
	processes := `SELECT count(to_regclass('processes'))`
	roles := `roles <> '{}' AND `
	if b.dialect == SQLite {
		since = `seen_at > (unixepoch('subsec') - $1) * 1000000`
		processes = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'processes'`
		roles = `roles <> '[]' AND `
	}
	check := func(query string, window time.Duration) error {
		var name string
		switch err := b.db.QueryRowContext(ctx, query+since+` LIMIT 1`, window.Seconds()).Scan(&name); {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err != nil:
			return fmt.Errorf("look for running processes: %w", err)
		}
		return fmt.Errorf("%w: %s was seen in the last %s: stop every Carillon process (after a crash, wait %[3]s) and try again", ErrInUse, name, window)
	}
	if b.version >= allInstances {
		return check(`SELECT 'process ' || instance_id || ' (' || host || ')' FROM instances WHERE `+roles, workerWindow)
	}
	have, err := b.count(ctx, processes) // the table came with version 18
	if err != nil {
		return err
	}
	if err := check(`SELECT 'worker ' || worker_id FROM workers WHERE `, workerWindow); err != nil || have == 0 {
		return err
	}
	return check(`SELECT 'process ' || process_id || ' (' || host || ', ' || roles || ')' FROM processes WHERE `, processWindow)
}

// prepare brings the database to version 27, makes the new tables and writes
// version 28.
func (b *bridge) prepare(ctx context.Context) (steps int, err error) {
	p, err := b.oldFiles()
	if err != nil {
		return 0, err
	}
	done, err := p.Up(ctx)
	if err != nil {
		return len(done), fmt.Errorf("migrate %s: %w", b.dialect, err)
	}
	return len(done), b.run(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return b.exec(ctx, tx, b.text("prepare"), b.coreSection("tables"),
			fmt.Sprintf(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (%d, true)`, core))
	})
}

// moveHistory copies runs that are over, each portion in a transaction of its own.
// The last run in ended_runs says where to go on.
func (b *bridge) moveHistory(ctx context.Context) error {
	total, err := b.count(ctx, `SELECT count(*) FROM schedule_runs WHERE status IN ('SUCCESS','FAILED','SKIPPED','CANCELLED')`)
	if err != nil {
		return err
	}
	moved, err := b.count(ctx, `SELECT count(*) FROM ended_runs`)
	if err != nil {
		return err
	}
	for n := int64(b.portion); n == int64(b.portion); {
		if err := b.run(ctx, func(ctx context.Context, tx *sql.Tx) error {
			n, err = b.movePortion(ctx, tx)
			return err
		}); err != nil {
			return err
		}
		if moved += int(n); b.progress != nil {
			b.progress(moved, total)
		}
	}
	return nil
}

func (b *bridge) movePortion(ctx context.Context, tx *sql.Tx) (int64, error) {
	runAt, key := any(time.Time{}), []byte{} // before the first
	if b.dialect == SQLite {
		runAt = int64(math.MinInt64)
	}
	err := tx.QueryRowContext(ctx, `SELECT run_at, idempotency_key FROM ended_runs ORDER BY run_at DESC, idempotency_key DESC LIMIT 1`).Scan(&runAt, &key)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	done, err := tx.ExecContext(ctx, b.text("ended"), runAt, key, b.portion)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// finish moves the runs that are not over and replaces the old table by the view.
// It refuses to lose a run.
func (b *bridge) finish(ctx context.Context, tx *sql.Tx) error {
	open, drop, ok := strings.Cut(b.text("finish"), "-- Nothing is left.\n")
	if !ok {
		return errors.New("finish.sql does not say where nothing is left")
	}
	if err := b.exec(ctx, tx, open); err != nil {
		return err
	}
	var before, after int
	if err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM schedule_runs),
	(SELECT count(*) FROM ended_runs) + (SELECT count(*) FROM open_runs)`).Scan(&before, &after); err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("schedule_runs has %d runs and the new tables have %d: delete runs without a schedule, or `carillon migrate down`", before, after)
	}
	return b.exec(ctx, tx, drop, b.coreSection("view"))
}

// down takes the database back to version 27. A database that began at a later
// version gets the older versions written, so that an older binary accepts it.
func (b *bridge) down(ctx context.Context) error {
	unfinished, err := b.unfinished(ctx)
	if err != nil {
		return err
	}
	p, err := b.oldFiles()
	if err != nil {
		return err
	}
	return b.run(ctx, func(ctx context.Context, tx *sql.Tx) error {
		statements := []string{b.text("back")}
		if unfinished {
			statements[0] = b.text("abandon")
		}
		statements = append(statements, fmt.Sprintf(`DELETE FROM goose_db_version WHERE version_id >= %d`, core))
		for _, old := range p.ListSources() {
			statements = append(statements, fmt.Sprintf(`INSERT INTO goose_db_version (version_id, is_applied)
SELECT %d, true WHERE NOT EXISTS (SELECT 1 FROM goose_db_version WHERE version_id = %[1]d)`, old.Version))
		}
		return b.exec(ctx, tx, statements...)
	})
}

// oldFiles are the migrations 1 to 27. They take no lock: the caller has it.
func (b *bridge) oldFiles() (*goose.Provider, error) {
	dir, err := fs.Sub(files, string(b.dialect)+"/bridge")
	if err != nil {
		return nil, fmt.Errorf("open older migrations of %s: %w", b.dialect, err)
	}
	return newProvider(b.db, b.dialect, dir)
}

// run calls do in a transaction.
func (b *bridge) run(ctx context.Context, do func(context.Context, *sql.Tx) error) (err error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (b *bridge) exec(ctx context.Context, tx *sql.Tx, statements ...string) error {
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (b *bridge) count(ctx context.Context, query string) (n int, err error) {
	if err := b.db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("read the state of the move: %w", err)
	}
	return n, nil
}

// text is a file of the move.
func (b *bridge) text(name string) string {
	return mustRead(string(b.dialect) + "/bridge/move/" + name + ".sql")
}

// coreSection is a part of the core file that the bridge needs too.
func (b *bridge) coreSection(name string) string {
	_, text, _ := strings.Cut(mustRead(fmt.Sprintf("%s/%05d_core.sql", b.dialect, core)), "-- +bridge "+name+"\n")
	text, _, _ = strings.Cut(text, "-- +bridge ")
	return text
}

func mustRead(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}
