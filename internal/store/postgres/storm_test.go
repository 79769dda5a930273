package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
)

// TestAStormOfWritersEndsWithoutAnError runs all writers at once on a few schedules, in
// orders that conflict. The store repeats what collides: no caller sees a deadlock or a
// lock timeout, and at the end no overlap key has two exclusive runs in flight.
func TestAStormOfWritersEndsWithoutAnError(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	s := newStorm(t, store)
	const turns, most = 25, 1000
	launchedAndMoved := func() bool { return s.launched.Load() > 0 && s.moved.Load() > 0 }
	group, ctx := errgroup.WithContext(t.Context())
	writers := []func(context.Context) error{
		s.plan, s.claim, s.claim, s.settle, s.settle, s.edit, s.edit, s.report, s.report, s.sweep, s.renew,
	}
	for _, write := range writers {
		group.Go(func() error {
			for turn := 0; turn < turns || turn < most && !launchedAndMoved(); turn++ {
				if err := write(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	var doubled int
	err := connect(t, url).QueryRow(t.Context(), `SELECT count(*) FROM (
		SELECT overlap_key FROM open_runs WHERE policy <> 1 AND state = 3
		GROUP BY overlap_key HAVING count(*) > 1) AS doubled`).Scan(&doubled)
	if err != nil || doubled > 0 {
		t.Errorf("%d overlap keys have two runs in flight (%v)", doubled, err)
	}
	if !launchedAndMoved() {
		t.Errorf("%d launches and %d settlements: there was no storm", s.launched.Load(), s.moved.Load())
	}
}

const stormSchedules = 40

type storm struct {
	store           *postgres.Store
	term            schedule.Term
	claiming        sync.Mutex
	leaseRenewer    *leaseRenewer
	ids             []string
	seconds         atomic.Int64 // the time goes on with every plan
	launched, moved atomic.Int64

	mu   sync.Mutex
	open []schedule.Key // launched and not yet settled
}

func newStorm(t *testing.T, store *postgres.Store) *storm {
	t.Helper()
	s := &storm{store: store}
	var rows []schedule.Schedule
	for i := range stormSchedules {
		row := everySecond(fmt.Sprintf("storm-%02d", i), noon)
		row.OverlapPolicy = schedule.OverlapPolicies[i%len(schedule.OverlapPolicies)]
		row.OverlapKey = fmt.Sprintf("key-%d", i/2) // two schedules to a key
		rows = append(rows, row)
		s.ids = append(s.ids, row.ScheduleID)
	}
	create(t, store, noon, rows...)
	s.term = lead(t, store)
	s.leaseRenewer = newLeaseRenewer(store, s.term)
	s.leaseRenewer.pass.Limit = 15
	return s
}

func (s *storm) now() time.Time { return noon.Add(time.Duration(s.seconds.Load()) * time.Second) }

func (s *storm) plan(ctx context.Context) error {
	s.seconds.Add(1)
	now := s.now()
	_, err := s.store.Plan(ctx, schedule.PlanRequest{Term: s.term, Now: now, Horizon: now, Grace: time.Hour, Limit: 100}, planOne)
	return err
}

func (s *storm) claim(ctx context.Context) error {
	s.claiming.Lock() // a leader makes one claim at a time
	result, err := s.leaseRenewer.claim(ctx, s.now())
	s.claiming.Unlock()
	if err != nil {
		return err
	}
	var begins []schedule.BeginRequest
	for i := range result.Launches {
		begins = append(begins, beginRequest(&result.Launches[i]))
	}
	if _, err := s.store.Begin(ctx, begins, s.now()); err != nil {
		return err
	}
	s.launched.Add(int64(len(begins)))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range begins {
		s.open = append(s.open, begins[i].Key)
	}
	return nil
}

// some takes up to n open keys in any order, and leaves them open where keep is.
func (s *storm) some(n int, keep bool) []schedule.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	rand.Shuffle(len(s.open), func(i, j int) { s.open[i], s.open[j] = s.open[j], s.open[i] })
	n = min(n, len(s.open))
	keys := slices.Clone(s.open[:n])
	if !keep {
		s.open = s.open[n:]
	}
	return keys
}

func (s *storm) settle(ctx context.Context) error {
	keys := s.some(10, false)
	if len(keys) == 0 {
		return s.claim(ctx)
	}
	var settlements []schedule.Settlement
	for _, key := range keys {
		settlements = append(settlements, schedule.Settlement{Key: key, To: schedule.StatusSuccess, LaunchedAt: s.now()})
	}
	moved, err := s.store.Settle(ctx, s.term, s.now(), settlements)
	for _, m := range moved {
		if m.To != "" {
			s.moved.Add(1)
		}
	}
	return err
}

// edit touches many schedules, named in any order.
func (s *storm) edit(ctx context.Context) error {
	ids := slices.Clone(s.ids)
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	req := schedule.ChangeRequest{ScheduleIDs: ids[:8], CountInFlight: true}
	return s.store.ChangeSchedules(ctx, req, func(inputs []schedule.ChangeInput) ([]schedule.Change, error) {
		var changes []schedule.Change
		for _, in := range inputs {
			row := *in.Schedule
			row.Priority++
			change := schedule.Change{ScheduleID: row.ScheduleID, Row: &row, Now: s.now(), DropPlannedAfter: s.now()}
			change.EndDue.To, change.EndDue.Reason = schedule.StatusSkipped, schedule.ReasonPaused
			changes = append(changes, change)
		}
		return changes, nil
	})
}

func (s *storm) report(ctx context.Context) error {
	for _, key := range s.some(5, true) {
		_, _, err := s.store.ChangeRun(ctx, key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) {
			return schedule.RunChange{Now: s.now(), Settle: &schedule.Settlement{
				Key: key, To: schedule.StatusStarted, LaunchedAt: s.now(), TimeoutAt: s.now().Add(time.Minute),
			}}, nil
		})
		if err != nil && !errors.Is(err, schedule.ErrNotFound) { // pruned meanwhile
			return err
		}
	}
	return nil
}

func (s *storm) sweep(ctx context.Context) error {
	req := schedule.SweepRequest{Term: s.term, Now: s.now().Add(30 * time.Second), CancelWait: time.Second, RetryFor: 5 * time.Second, Limit: 100}
	if _, err := s.store.Sweep(ctx, req); err != nil {
		return err
	}
	_, err := s.store.Prune(ctx, s.term, s.now().Add(-5*time.Second), 10)
	return err
}

func (s *storm) renew(ctx context.Context) error {
	_, err := s.store.Renew(ctx, s.term, schedule.RenewRequest{TTL: time.Hour, Now: s.now()})
	return err
}
