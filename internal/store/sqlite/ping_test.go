package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

func beside(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestAFileThatIsBusyAnswersAPing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	s := open(t, path, sqlite.Options{})
	tx, err := beside(t, path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `UPDATE leaders SET expires_at = 0`); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("busy is alive, got %v", err)
	}
}

// A transaction of another process is normal for a moment. Beyond two seconds
// nothing is launched, and the process must not call itself ready.
func TestAPingFailsOnceAnotherProcessHasHeldTheLockForLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carillon.db")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, path, sqlite.Options{})
		db := beside(t, path)
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), `UPDATE leaders SET expires_at = 0`); err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("at first: %v", err)
		}
		time.Sleep(3 * time.Second)
		err = s.Ping(t.Context())
		if !errors.Is(err, schedule.ErrUnavailable) || !sqlite.FromDriver(err) || !strings.Contains(err.Error(), "another process has held the database's lock for 3s: end it, or wait") {
			t.Errorf("after 3 s: %v", err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("once the lock is free: %v", err)
		}
	})
}

// A server with much to do takes the lock again and again, and must not be called
// hung: the advice would be to end it.
func TestAFileThatOthersWriteWithoutAPauseAnswersAPing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carillon.db")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, path, sqlite.Options{})
		db := beside(t, path)
		take := func() *sql.Tx {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), `INSERT OR REPLACE INTO instances (instance_id, host, started_at, seen_at) VALUES ('other', '', 0, 0)`); err != nil {
				t.Fatal(err)
			}
			return tx
		}
		tx := take()
		next := func() {
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			tx = take()
		}
		for range 8 {
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("the ping: %v", err)
			}
			time.Sleep(time.Second)
			next()
		}
		written := make(chan error)
		go func() { written <- s.Heartbeat(t.Context(), schedule.Instance{ID: "w", StartedAt: s.Now()}) }()
		var err error
		for waits := true; waits; {
			select {
			case err = <-written:
				waits = false
			case <-time.After(time.Second):
				next()
			}
		}
		if !errors.Is(err, schedule.ErrUnavailable) || !strings.Contains(err.Error(), "other processes write to the database without a pause: try again") {
			t.Errorf("the write: %v", err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAPingFailsWhileTheDiskIsFull(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "carillon.db"), sqlite.Options{})
	if err := s.LimitPages(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	seen := schedule.Instance{Host: strings.Repeat("h", 8<<10), StartedAt: s.Now()}
	var err error
	for n := 0; err == nil && n < 100; n++ {
		seen.ID = strconv.Itoa(n)
		err = s.Heartbeat(t.Context(), seen)
	}
	if !errors.Is(err, schedule.ErrUnavailable) || !strings.Contains(err.Error(), "the disk is full, nothing was written: make room") {
		t.Fatalf("the write: %v", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, schedule.ErrUnavailable) || !sqlite.FromDriver(err) || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("the ping: %v", err)
	}
	if err := s.LimitPages(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Heartbeat(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// On Unix a removed file can be written until it is closed, and is lost then.
func TestNothingIsWrittenToAFileThatWasRemovedOrReplaced(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"replaced by a copy": func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path+".copy", data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".copy", path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "carillon.db")
			s := open(t, path, sqlite.Options{})
			if err := os.Link(path, path+".kept"); err != nil {
				t.Fatal(err)
			}
			remove(t, path)
			for what, err := range map[string]error{
				"the write": s.Heartbeat(t.Context(), schedule.Instance{ID: "w", StartedAt: s.Now()}), "the ping": s.Ping(t.Context()),
			} {
				if !errors.Is(err, schedule.ErrUnavailable) || !sqlite.FromDriver(err) || !strings.Contains(err.Error(), path) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := os.Rename(path+".kept", path); err != nil {
				t.Fatal(err)
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("with the same file back: %v", err)
			}
		})
	}
}

// A network file system may answer with other errors while the file is there.
func TestAFileThatCannotBeLookedAtIsNotCalledRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, filepath.Join(dir, "carillon.db"), sqlite.Options{})
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // the path leads through it
		t.Fatal(err)
	}
	err := s.Heartbeat(t.Context(), schedule.Instance{ID: "w", StartedAt: s.Now()})
	if !errors.Is(err, schedule.ErrUnavailable) || !sqlite.FromDriver(err) || !errors.Is(err, syscall.ENOTDIR) || strings.Contains(err.Error(), "restore") {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(os.Remove(dir), os.Rename(dir+".moved", dir)); err != nil {
		t.Fatal(err)
	}
}
