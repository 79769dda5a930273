package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/internal/test/storetest"
	"github.com/carillon/carillon/launcher/presence"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashFile); path != "" {
		fmt.Fprintln(os.Stderr, liveUntilKilled(path, os.Stdout))
		os.Exit(1)
	}
	leaks.Main(m)
}

func TestStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Store {
		path := filepath.Join(t.TempDir(), "carillon.db")
		return poisoner{open(t, path, sqlite.Options{QueuedRetry: storetest.QueuedRetry}), path}
	})
}

// open opens a migrated store that is closed when its test ends.
func open(t testing.TB, path string, opts sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), "sqlite:"+migrated.SQLite(t, path), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// poisoner can also break a row, as a bug or a hand at the file might.
type poisoner struct {
	*sqlite.Store
	path string
}

func (p poisoner) Poison(ctx context.Context, scheduleID string) error {
	return p.exec(ctx, `UPDATE schedules SET labels = '{"broken":' WHERE schedule_id = ?`, scheduleID)
}

func (p poisoner) DropRevisions(ctx context.Context, scheduleID string) error {
	return p.exec(ctx, `DELETE FROM schedule_revisions WHERE schedule_id = ?`, scheduleID)
}

func (p poisoner) DropCancelReason(ctx context.Context, key schedule.Key) error {
	return p.exec(ctx, `UPDATE open_runs SET cancel_reason = NULL WHERE idempotency_key = ?`, key[:])
}

// Probe makes it a storetest.Prober.
func (p poisoner) Probe(ctx context.Context, statement string, args ...any) (found [][]string, err error) {
	db, err := sql.Open("sqlite", p.path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		texts := make([]string, len(row))
		for i := range row {
			texts[i] = row[i].String
		}
		found = append(found, texts)
	}
	return found, rows.Err()
}

// Age makes it a storetest.Ager.
func (p poisoner) Age(ctx context.Context, id string, by time.Duration) error {
	return p.exec(ctx, fmt.Sprintf(`UPDATE instances SET seen_at = seen_at - %d WHERE instance_id = ?`, by.Microseconds()), id)
}

func (p poisoner) OrphanUse(ctx context.Context, limitID string) error {
	return p.exec(ctx, `INSERT INTO limit_uses (limit_no, limit_key, used_by) SELECT limit_no, '', randomblob(32) FROM limits WHERE limit_id = ?`, limitID)
}

func (p poisoner) exec(ctx context.Context, statement string, arg any) error {
	db, err := sql.Open("sqlite", p.path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err = db.ExecContext(ctx, statement, arg); err != nil {
		return fmt.Errorf("poison %v: %w", arg, err)
	}
	return nil
}

// HoldPresence makes it a storetest.Presences.
func (p poisoner) HoldPresence(ctx context.Context, no int32) (generation string, drop func(), err error) {
	s, err := presence.Files{Path: p.PresenceFile, Generation: sqlite.Generation}.Take(ctx, no)
	if err != nil {
		return "", nil, err
	}
	return s.Generation(), s.Close, nil
}
