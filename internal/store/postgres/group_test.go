package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
)

// changeOne is ChangeSchedules of one id.
func changeOne(ctx context.Context, store *postgres.Store, id string, limit int, decide func(*schedule.Schedule) (*schedule.Schedule, error)) error {
	req := schedule.ChangeRequest{ScheduleIDs: []string{id}, OwnerLimit: limit}
	return store.ChangeSchedules(ctx, req, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
		row, err := decide(found[0].Schedule)
		if row == nil || err != nil {
			return nil, err
		}
		change := schedule.Change{ScheduleID: id, Row: row, Created: found[0].Schedule == nil, NewRevision: true, Now: noon}
		change.Audit = &schedule.AuditEntry{Time: noon, Method: "UpsertSchedule", Target: id, Code: "OK", RevisionAfter: row.Revision}
		return []schedule.Change{change}, nil
	})
}

// gathering holds the store's next transaction open until so many calls of
// changeOne wait for the one after it.
func gathering(t *testing.T, store *postgres.Store, calls []func() error) []error {
	t.Helper()
	begun, release := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- changeOne(t.Context(), store, "first", 0, func(*schedule.Schedule) (*schedule.Schedule, error) {
			close(begun)
			<-release
			return nil, nil
		})
	}()
	<-begun
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() { errs[i] = call() })
		for postgres.Gathered(store) < i+1 && t.Context().Err() == nil {
			runtime.Gosched()
		}
	}
	close(release)
	wg.Wait()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	return errs
}

func creation(ctx context.Context, store *postgres.Store, s schedule.Schedule, limit int) func() error {
	return func() error {
		return changeOne(ctx, store, s.ScheduleID, limit, func(*schedule.Schedule) (*schedule.Schedule, error) { return &s, nil })
	}
}

func commits(t *testing.T, url string) (n int) {
	t.Helper()
	if err := connect(t, url).QueryRow(t.Context(), `SELECT count(DISTINCT xmin::text) FROM schedules`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestChangesThatComeTogetherAreWrittenTogether(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	var calls []func() error
	for i := range 50 {
		calls = append(calls, creation(t.Context(), store, everySecond(fmt.Sprint("s", i), noon), 0))
	}
	for i, err := range gathering(t, store, calls) {
		if err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if n := commits(t, url); n != 1 {
		t.Errorf("50 schedules were written in %d transactions, want 1", n)
	}
	var revisions, audited int
	err := connect(t, url).QueryRow(t.Context(), `SELECT (SELECT count(*) FROM schedule_revisions), (SELECT count(*) FROM audit_log)`).Scan(&revisions, &audited)
	if err != nil || revisions != 50 || audited != 50 {
		t.Errorf("%d revisions, %d audit rows, %v; want 50 of each", revisions, audited, err)
	}
}

func TestOneOfManyChangesFailsByItself(t *testing.T) {
	t.Parallel()
	refusal := errors.New("refused")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name  string
		bad   func(store *postgres.Store) error
		want  string
		apart int // transactions that the good ones may take
	}{
		{"its decision refuses it", func(store *postgres.Store) error {
			return changeOne(t.Context(), store, "bad", 0, func(*schedule.Schedule) (*schedule.Schedule, error) { return nil, refusal })
		}, "refused", 1},
		{"its owner has too many", func(store *postgres.Store) error {
			s := everySecond("bad", noon)
			return creation(t.Context(), store, s, 3)()
		}, "owner \"owner\" would have", 1},
		{"the database refuses what it writes", func(store *postgres.Store) error {
			s := everySecond("bad", noon)
			s.CronExpr = "nul \x00"
			return creation(t.Context(), store, s, 0)()
		}, "invalid byte sequence", 20},
		{"nobody waits for it", func(store *postgres.Store) error {
			return creation(cancelled, store, everySecond("bad", noon), 0)()
		}, "context canceled", 1},
		{"it panics", func(store *postgres.Store) (err error) {
			defer func() { err = fmt.Errorf("%v", recover()) }()
			return changeOne(t.Context(), store, "bad", 0, func(*schedule.Schedule) (*schedule.Schedule, error) { panic("boom") })
		}, "boom", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store, url := fresh(t)
			var calls []func() error
			for i := range 20 {
				calls = append(calls, creation(t.Context(), store, everySecond(fmt.Sprint("good", i), noon), 0))
			}
			var bad error
			calls[10] = func() error {
				bad = c.bad(store)
				return nil
			}
			if c.want == "context canceled" { // it never gathers
				bad = c.bad(store)
				calls = append(calls[:10], calls[11:]...)
			}
			for i, err := range gathering(t, store, calls) {
				if err != nil {
					t.Errorf("change %d fails with the bad one: %v", i, err)
				}
			}
			if bad == nil || !strings.Contains(bad.Error(), c.want) {
				t.Errorf("the bad one: %v; want %s", bad, c.want)
			}
			var living int
			if err := connect(t, url).QueryRow(t.Context(), `SELECT count(*) FROM schedules WHERE schedule_id LIKE 'good%'`).Scan(&living); err != nil || living != 19 {
				t.Errorf("%d schedules, %v; want 19", living, err)
			}
			if n := commits(t, url); n > c.apart {
				t.Errorf("the good ones took %d transactions, want at most %d", n, c.apart)
			}
		})
	}
}

func TestOfThoseThatComeTogetherAnOwnerMayHaveExactlyAsManyAsAllowed(t *testing.T) {
	t.Parallel()
	store, _ := fresh(t)
	var calls []func() error
	for i := range 30 {
		s := everySecond(fmt.Sprint("s", i), noon)
		s.UserID = fmt.Sprint("owner-", i%3)
		calls = append(calls, creation(t.Context(), store, s, 4))
	}
	made := make(map[int]int)
	for i, err := range gathering(t, store, calls) {
		switch {
		case err == nil:
			made[i%3]++
		case !errors.Is(err, schedule.ErrExhausted):
			t.Errorf("change %d: %v", i, err)
		}
	}
	for owner := range 3 {
		if made[owner] != 4 {
			t.Errorf("owner %d has %d schedules, want 4", owner, made[owner])
		}
	}
	s := everySecond("one more", noon)
	s.UserID = "owner-1"
	if err := creation(t.Context(), store, s, 4)(); !errors.Is(err, schedule.ErrExhausted) {
		t.Errorf("a fifth: %v", err)
	}
}

func TestAChangeThatMustWaitHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	held := everySecond("held", noon)
	create(t, store, noon, held)
	conn := connect(t, url)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM schedules WHERE schedule_id = 'held' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	calls := []func() error{
		func() error {
			go func() { // it goes on when the others are done
				waiting <- changeOne(t.Context(), store, "held", 0, func(s *schedule.Schedule) (*schedule.Schedule, error) {
					if s == nil {
						return nil, errors.New("it was not seen")
					}
					next := *s
					next.Revision++
					return &next, nil
				})
			}()
			return nil
		},
		creation(t.Context(), store, everySecond("free", noon), 0),
	}
	for _, err := range gathering(t, store, calls) {
		if err != nil {
			t.Errorf("it waits for somebody else's lock: %v", err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if s, err := store.GetSchedule(t.Context(), "held"); err != nil || s.Revision != 2 {
		t.Errorf("%+v, %v; want revision 2", s, err)
	}
}

// Of schedules that many change at random, in two processes, no change is lost
// and none is made on what was no longer so.
func TestNoChangeIsLostAmongThoseThatComeTogether(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	stores := []*postgres.Store{store, open(t, url, postgres.Options{})}
	const ids, callers, each = 12, 24, 40
	var mu sync.Mutex
	made := make(map[string]int64)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(caller)))
			for range each {
				id := fmt.Sprint("s", random.IntN(ids))
				refuses := random.IntN(4) == 0
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(8) == 0 {
					cancel() // at the latest
				}
				err := changeOne(ctx, stores[caller%2], id, 0, func(s *schedule.Schedule) (*schedule.Schedule, error) {
					next := everySecond(id, noon)
					if s != nil {
						next.Revision = s.Revision + 1
					}
					if refuses {
						return nil, schedule.ErrPrecondition
					}
					return &next, nil
				})
				cancel()
				switch {
				case err == nil && !refuses:
					mu.Lock()
					made[id]++
					mu.Unlock()
				case err == nil, !errors.Is(err, schedule.ErrPrecondition) && !errors.Is(err, context.Canceled):
					t.Errorf("%s, refused %t: %v", id, refuses, err)
				}
			}
		})
	}
	wg.Wait()
	for id, want := range made {
		s, err := store.GetSchedule(t.Context(), id)
		if err != nil || s.Revision != want {
			t.Errorf("%s: %v, %v; want revision %d", id, s, err, want)
		}
		revisions, err := store.ListRevisions(t.Context(), id, 0, 10_000)
		if err != nil || int64(len(revisions)) != want {
			t.Errorf("%s has %d revisions, %v; want %d", id, len(revisions), err, want)
		}
	}
}

func TestAStoreThatIsClosedLeavesNoChangeWaiting(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	store, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	var calls []func() error
	for i := range 20 {
		calls = append(calls, creation(t.Context(), store, everySecond(fmt.Sprint("s", i), noon), 0))
	}
	calls = append(calls, func() error {
		go func() { closed <- store.Close() }()
		return creation(t.Context(), store, everySecond("last", noon), 0)()
	})
	written := 0
	for _, err := range gathering(t, store, calls) {
		if err == nil {
			written++
		}
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	var living int
	if err := connect(t, url).QueryRow(t.Context(), `SELECT count(*) FROM schedules`).Scan(&living); err != nil || living != written {
		t.Errorf("%d schedules, %v; %d were answered", living, err, written)
	}
}
