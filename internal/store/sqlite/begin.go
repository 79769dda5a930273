package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Begin records keys before the executor is called and says for each what may
// be done.
func (s *Store) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	var results []schedule.BeginResult
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		results = make([]schedule.BeginResult, len(reqs))
		b, err := s.readBeginning(ctx, t, reqs)
		if err != nil {
			return err
		}
		b.now = now
		if err := s.readHolders(ctx, t, b); err != nil {
			return err
		}
		for i := range reqs {
			results[i] = ledger.Begin(&reqs[i], b.facts(&reqs[i], b.clean[i]), now)
			if err := b.record(ctx, t, &results[i]); err != nil {
				return fmt.Errorf("key %s: %w", reqs[i].Key, err)
			}
		}
		return b.insert(ctx, t)
	})
	if err != nil {
		return nil, fmt.Errorf("begin calls: %w", err)
	}
	return results, nil
}

// beginning is what stands when calls are about to begin.
type beginning struct {
	now       time.Time
	clean     []bool // of the requests: nothing but its grant can be against it
	requests  map[schedule.Key]schedule.ExecutionRequest
	runs      map[schedule.Key]schedule.Run // only what the checks need
	schedules map[string]schedule.Schedule  // likewise
	grants    map[schedule.GrantRef]*schedule.Grant
	holders   map[int32]*ledger.Holder // of keys whose leases run
	granted   []any                    // the arguments of keys that are new, in order
}

// beginArgs is how many arguments a new key has.
const beginArgs = 6

func (s *Store) readBeginning(ctx context.Context, t tx, reqs []schedule.BeginRequest) (*beginning, error) {
	var keys []schedule.Key
	var ids []string
	refs := make([]schedule.GrantRef, len(reqs))
	b := &beginning{runs: make(map[schedule.Key]schedule.Run), schedules: make(map[string]schedule.Schedule)}
	var err error
	if b.clean, err = s.readClean(ctx, t, reqs); err != nil {
		return nil, fmt.Errorf("read runs that nothing is against: %w", err)
	}
	for i := range reqs {
		refs[i] = reqs[i].Grant.Ref()
		if !b.clean[i] {
			keys = append(keys, reqs[i].Key)
			ids = append(ids, reqs[i].ScheduleID)
		}
	}
	if b.requests, err = readRequests(ctx, t, keys); err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	var row runRow
	err = t.query(ctx, sqlBeginRuns, func(scan scan) error {
		err := scan(&row.key, &row.scheduleID, &row.status, &row.reason, &row.trigger, &row.cancel, &row.cancelReason)
		b.runs[schedule.Key(row.key)] = row.run()
		return err
	}, keyList(keys))
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	var id string
	var deleted, until instant
	var paused flag
	err = t.query(ctx, sqlBeginSchedules, func(scan scan) error {
		err := scan(&id, &deleted, &paused, &until)
		b.schedules[id] = schedule.Schedule{DeletedAt: deleted.Time, Pause: schedule.Pause{Paused: bool(paused), Until: until.Time}}
		return err
	}, list(ids))
	if err != nil {
		return nil, fmt.Errorf("read schedules: %w", err)
	}
	if b.grants, err = readGrants(ctx, t, refs); err != nil {
		return nil, err
	}
	return b, nil
}

// readClean reports which requests have the facts that nearly all have: the run
// is LAUNCHING, no cancel is requested, the schedule is neither deleted nor
// paused, and the key has no record. One statement finds them, instead of three
// that read the columns.
func (s *Store) readClean(ctx context.Context, t tx, reqs []schedule.BeginRequest) ([]bool, error) {
	clean, rows := make([]bool, len(reqs)), make([]int64, len(reqs))
	for i, p := range s.places.of(len(reqs), func(i int) schedule.Key { return reqs[i].Key }) {
		rows[i] = p.row
	}
	var at int
	var k key
	var id string
	err := t.query(ctx, sqlBeginClean, func(scan scan) error {
		if err := scan(&at, &k, &id); err != nil {
			return err
		}
		clean[at] = reqs[at].Key == schedule.Key(k) && reqs[at].ScheduleID == id
		return nil
	}, rowList(rows))
	return clean, err
}

// facts returns the facts about one key. For a clean key no column was read: the
// condition of the statement gives their values.
func (b *beginning) facts(q *schedule.BeginRequest, clean bool) *ledger.BeginFacts {
	f := ledger.BeginFacts{Grant: b.grants[q.Grant.Ref()]}
	if there, known := b.requests[q.Key]; known {
		f.Known, f.Holder = &there, b.holders[there.Holder]
	}
	if clean {
		f.Run = &ledger.BeginRun{Status: schedule.StatusLaunching, Trigger: q.Trigger}
		return &f
	}
	if run, known := b.runs[q.Key]; known {
		f.Run = ledger.BeginRunOf(&run)
	}
	if s, known := b.schedules[q.ScheduleID]; known {
		f.Deleted, f.Pause = !s.Alive(), s.Pause
	}
	return &f
}

// record writes the decision of Begin, so that a second request with the key finds it.
func (b *beginning) record(ctx context.Context, t tx, result *schedule.BeginResult) (err error) {
	now, row := b.now.UnixMicro(), result.Request
	if result.Permission == schedule.GrantedAgain || result.Permission == schedule.Refused {
		if err := b.insert(ctx, t); err != nil { // this key may be among them
			return err
		}
	}
	switch result.Permission {
	case schedule.Granted:
		b.granted = append(b.granted, keyArg(row.Key), row.RequestHash[:], row.LeaseUntil.UnixMicro(), row.Holder, now, now)
	case schedule.GrantedAgain:
		_, err = t.exec(ctx, sqlBeginAgain, row.LeaseUntil.UnixMicro(), now, keyArg(row.Key), row.Holder)
	case schedule.Refused:
		o := row.Outcome
		_, err = t.exec(ctx, sqlRefuse, keyArg(row.Key), row.RequestHash[:], string(o.Status), word(o.Reason), now, word(o.ErrorMessage))
	default:
		return nil // nothing changes
	}
	b.requests[row.Key] = row
	return err
}

// insert puts down the keys that were granted for the first time.
func (b *beginning) insert(ctx context.Context, t tx) error {
	for left := b.granted; len(left) > 0; {
		statement, n := portion(sqlBeginInsert, sqlBeginInserts, len(left)/beginArgs)
		if _, err := t.exec(ctx, statement, left[:n*beginArgs]...); err != nil {
			return fmt.Errorf("record %d keys: %w", n, err)
		}
		left = left[n*beginArgs:]
	}
	b.granted = nil
	return nil
}
