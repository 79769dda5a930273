package solo_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/leadertest"
	"github.com/carillon/carillon/worker/leader/solo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSoloLeads(t *testing.T) {
	t.Parallel()
	leadertest.Run(t, func(t *testing.T, test func(*testing.T, leadertest.Setting)) {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "carillon.db")
			store, err := sqlite.Open(t.Context(), "sqlite:"+path, sqlite.Options{Logger: slog.New(slog.DiscardHandler), MaxConns: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			if _, err := store.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
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
