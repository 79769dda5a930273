package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

// A loop over a real store runs in a bubble: 600 ticks of a second, each with a
// plan, a claim, a settlement and a heartbeat, and nothing is left when the
// store is closed.
func TestTicksInABubble(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carillon.db")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, path, sqlite.Options{})
		start := s.Now()
		term := lead(t, s, start)
		create(t, s, everySecond("each-second", start))
		l := shard{store: s, term: term}
		var woken atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		listened := make(chan error, 1)
		go func() { listened <- s.Listen(ctx, func(int, int) { woken.Add(1) }) }()
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		launched := 0
		for range 600 {
			<-ticker.C
			now := s.Now()
			if _, err := s.Plan(ctx, schedule.PlanRequest{Term: term, Now: now, Horizon: now, Grace: time.Minute, Limit: 10}, planOne); err != nil {
				t.Fatal(err)
			}
			claimed := l.claim(t, now)
			for _, l := range claimed.Launches {
				launched++
				_, err := s.SettleLaunched(ctx, now, []schedule.Settlement{{Key: l.Run.Key, To: schedule.StatusSuccess, LaunchedAt: now}})
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Heartbeat(ctx, schedule.Instance{ID: "worker", StartedAt: start}); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-listened; err != nil {
			t.Error(err)
		}
		if launched != 600 || woken.Load() != 600 {
			t.Errorf("%d launches and %d wakes, want 600 of each", launched, woken.Load())
		}
		if elapsed := s.Now().Sub(start); elapsed != 600*time.Second {
			t.Errorf("600 ticks took %s of the bubble's time", elapsed)
		}
	})
}

func TestListenEndsWhenTheStoreIsClosed(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "carillon.db"), sqlite.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context(), func(int, int) {}); !errors.Is(err, schedule.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

// A decision that panics must not leave the writer in the middle of things.
func TestAPanickingDecisionLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "carillon.db"), sqlite.Options{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		w := &schedule.WorkflowVersion{WorkflowID: "w", Version: 1, DAG: []byte("{}"), CreatedAt: noon}
		_ = s.ChangeSchedules(t.Context(), schedule.ChangeRequest{Workflows: []*schedule.WorkflowVersion{w}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
			panic("a bug")
		})
	}()
	if _, err := s.GetWorkflow(t.Context(), "", "w", 1); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("what the transaction had written is there: %v", err)
	}
	create(t, s, everySecond("after", noon))
}

func TestARunWhoseDefinitionCannotBeReadEndsAndHarmsNoOther(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	s := open(t, path, sqlite.Options{})
	term := lead(t, s, noon)
	var keys []schedule.Key
	for _, id := range []string{"broken", "sound"} {
		row := everySecond(id, noon)
		create(t, s, row, slotOf(&row, noon))
		keys = append(keys, schedule.SlotKey(id, noon))
	}
	write(t, path, `UPDATE schedule_revisions SET definition = '{' WHERE schedule_id = 'broken'`)

	result := (&shard{store: s, term: term}).claim(t, noon)
	if len(result.Launches) != 1 || result.Launches[0].Run.Key != keys[1] {
		t.Errorf("the sound one is launched, got %+v", result.Launches)
	}
	broken, err := s.GetRun(t.Context(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	if broken.Status != schedule.StatusFailed || broken.Reason != schedule.ReasonLaunchRefused || !strings.Contains(broken.ErrorMessage, "revision 1") {
		t.Errorf("the broken one has ended, got %s(%s) %q", broken.Status, broken.Reason, broken.ErrorMessage)
	}
}

func TestAScheduleThatCannotBeReadHidesNoOther(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	s := open(t, path, sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	for _, id := range []string{"a", "b", "c", "d"} {
		create(t, s, everySecond(id, noon))
	}
	write(t, path, `UPDATE schedules SET labels = '{' WHERE schedule_id IN ('a', 'c')`)
	var listed []string
	for after := ""; ; after = listed[len(listed)-1] {
		page, err := s.ListSchedules(t.Context(), schedule.ScheduleFilter{After: after, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		listed = append(listed, page[0].ScheduleID)
	}
	if !slices.Equal(listed, []string{"b", "d"}) {
		t.Errorf("listed %v, want the two that can be read", listed)
	}
	if _, err := s.GetSchedule(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "labels") {
		t.Errorf("asked for by name it says what is wrong, got %v", err)
	}
}

// Somebody's shell that holds the file's lock makes us wait, not fail.
func TestWritersOfOtherConnectionsAreWaitedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	s := open(t, path, sqlite.Options{})
	db, err := sql.Open("sqlite", path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- s.Heartbeat(t.Context(), schedule.Instance{ID: "worker", StartedAt: noon}) }()

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Heartbeat(ctx, schedule.Instance{ID: "impatient", StartedAt: noon}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller whose time is over is let go, got %v", err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("readers do not wait: %v", err)
	}
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// lead makes the test the leader of shard 0.
func lead(t testing.TB, s *sqlite.Store, now time.Time) schedule.Term {
	t.Helper()
	term, ok, err := s.Takeover(t.Context(), schedule.TakeoverRequest{Holder: "test", TTL: time.Hour, LockHeld: true, Now: now})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return term
}

// create stores a schedule with its first revision, and runs.
func create(t testing.TB, s *sqlite.Store, row schedule.Schedule, runs ...schedule.Run) {
	t.Helper()
	err := s.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{row.ScheduleID}},
		func([]schedule.ChangeInput) ([]schedule.Change, error) {
			return []schedule.Change{{ScheduleID: row.ScheduleID, Row: &row, NewRevision: true, Runs: runs, Now: row.CreatedAt}}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// shard is what a worker keeps of a term.
type shard struct {
	store    *sqlite.Store
	term     schedule.Term
	state    *ledger.ShardState
	position ledger.Position
	loaded   time.Time // the end of the window
}

// claim is one pass.
func (l *shard) claim(t testing.TB, now time.Time) ledger.Claimed {
	t.Helper()
	claimed, err := l.pass(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	if len(claimed.Missing) > 0 || len(claimed.Refused) > 0 {
		t.Errorf("missing %v, refused %v, want none", claimed.Missing, claimed.Refused)
	}
	return claimed
}

func (l *shard) pass(ctx context.Context, now time.Time) (ledger.Claimed, error) {
	if l.state == nil || now.After(l.loaded) {
		open, err := l.store.LoadOpen(ctx, l.term, l.loaded, now)
		if err != nil {
			return ledger.Claimed{}, err
		}
		if l.state == nil {
			l.state, l.position = ledger.Rebuild(l.term.Epoch, &open, now), open.Position
		}
		l.state.Load(&open)
		l.state.LoadedUntil(now)
		l.loaded = now
	}
	claim := &ledger.Claim{State: l.state, Pass: ledger.Pass{Now: now, Grace: time.Minute, Limit: 1000}}
	claimed, err := l.store.Claim(ctx, ledger.ClaimRequest{
		Term: l.term, Now: now, Position: l.position, Lease: 30 * time.Second, RetryFor: 10 * time.Minute,
	}, claim)
	if err != nil {
		return claimed, err
	}
	l.state.Commit(claimed.Verdicts, 30*time.Second)
	l.position = claimed.Position
	return claimed, nil
}

// write changes the file behind the store's back.
func write(t testing.TB, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
