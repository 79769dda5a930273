package sqlite_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

// world is a store whose clock is set by hand.
type world struct {
	path  string
	clock time.Time
	store *sqlite.Store
	term  schedule.Term
}

type step func(*testing.T, *world)

func reopen(t *testing.T, w *world) {
	w.store = open(t, w.path, sqlite.Options{HostClock: func() time.Time { return w.clock }})
}

func TestAReadPositionCountsAsLongAsAllChangesAfterItAreThere(t *testing.T) {
	t.Parallel()
	insert := func(id string) step {
		return func(t *testing.T, w *world) {
			row := everySecond(id, noon)
			create(t, w.store, row, slotOf(&row, noon))
		}
	}
	end := func(t *testing.T, w *world) {
		_, err := w.store.SettleLaunched(t.Context(), noon, []schedule.Settlement{{Key: schedule.SlotKey("first", noon), To: schedule.StatusSkipped}})
		must(t, err)
	}
	prune := func(later time.Duration) step {
		return func(t *testing.T, w *world) {
			w.clock = w.clock.Add(later)
			_, err := w.store.Prune(t.Context(), w.term, noon.Add(-time.Hour), 1000)
			must(t, err)
		}
	}
	for _, tc := range []struct {
		name      string
		meanwhile []step
		lost      bool
	}{
		{name: "nothing has changed"},
		{name: "runs were inserted", meanwhile: []step{insert("second"), insert("third")}},
		{name: "what was read before is pruned", meanwhile: []step{prune(2 * time.Hour)}},
		{name: "ends are kept for a minute", meanwhile: []step{end, prune(59 * time.Second)}},
		{name: "an end is pruned after a minute", meanwhile: []step{end, prune(61 * time.Second)}, lost: true},
		{name: "an insert is kept longer than an end", meanwhile: []step{insert("second"), prune(59 * time.Minute)}},
		{name: "an insert is pruned after an hour", meanwhile: []step{insert("second"), prune(61 * time.Minute)}, lost: true},
		{name: "the file was opened again", meanwhile: []step{reopen}, lost: true},
		{name: "the clock was set back", meanwhile: []step{func(t *testing.T, w *world) {
			must(t, w.store.Rewind(t.Context(), noon, noon.Add(-time.Hour)))
		}}, lost: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := &world{path: filepath.Join(t.TempDir(), "carillon.db"), clock: noon}
			reopen(t, w)
			w.term = lead(t, w.store, noon)
			insert("first")(t, w)
			open, err := w.store.LoadOpen(t.Context(), w.term, time.Time{}, noon)
			must(t, err)
			for _, step := range tc.meanwhile {
				step(t, w)
			}
			claim := &ledger.Claim{State: ledger.Rebuild(w.term.Epoch, &open, noon), Pass: ledger.Pass{Now: noon, Grace: time.Minute}}
			_, err = w.store.Claim(t.Context(), ledger.ClaimRequest{Term: w.term, Now: noon, Position: open.Position}, claim)
			if lost := errors.Is(err, ledger.ErrPositionLost); lost != tc.lost || err != nil && !lost {
				t.Errorf("the claim answered %v, want position lost: %v", err, tc.lost)
			}
		})
	}
}
