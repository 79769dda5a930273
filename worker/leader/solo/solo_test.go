package solo_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/leadertest"
	"github.com/carillon/carillon/worker/leader/solo"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestSoloLeads(t *testing.T) {
	t.Parallel()
	leadertest.Run(t, func(t *testing.T, test func(*testing.T, leadertest.Setting)) {
		synctest.Test(t, func(t *testing.T) {
			path := migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db"))
			store, err := sqlite.Open(t.Context(), "sqlite:"+path, sqlite.Options{Logger: slog.New(slog.DiscardHandler), MaxConns: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			test(t, leadertest.Setting{Lease: store, Now: store.Now, Lock: func() leader.Lock { return solo.New(path+".lock", slog.New(slog.DiscardHandler)) }})
		})
	})
}

func TestALockFileThatCannotBeMadeIsSaid(t *testing.T) {
	t.Parallel()
	lock := solo.New(filepath.Join(t.TempDir(), "none", "lock"), nil)
	if err := lock.Acquire(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that the folder does not exist", err)
	}
}

func TestASecondProcessIsToldThatItFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "carillon.db.lock")
		var said strings.Builder
		first, second := solo.New(path, slog.New(slog.DiscardHandler)), solo.New(path, slog.New(slog.NewTextHandler(&said, nil)))
		if err := first.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := second.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the wait was given up", err)
		}
		line := said.String()
		if strings.Count(line, "\n") != 1 || !strings.Contains(line, "another process leads on this file") ||
			!strings.Contains(line, path) || !strings.Contains(line, "process="+strconv.Itoa(os.Getpid())) {
			t.Errorf("it was told %q, want one line with the file and the process that leads", line)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestALockFileThatIsRemovedIsHeldByNobody(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db.lock")
	first, second := solo.New(path, nil), solo.New(path, nil)
	if err := first.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := first.Keep(t.Context()); err == nil {
		t.Error("the lock is kept on a file that nobody else finds")
	}
	if err := second.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Keep(t.Context()); err == nil {
		t.Error("two processes keep the lock")
	}
	if err := errors.Join(second.Keep(t.Context()), first.Release(t.Context()), second.Keep(t.Context()), second.Release(t.Context())); err != nil {
		t.Error(err)
	}
}
