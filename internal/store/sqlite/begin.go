package sqlite

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Begin records keys before the executor is called and decides which calls are permitted.
func (s *Store) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	var results []schedule.BeginResult
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		results = make([]schedule.BeginResult, len(reqs))
		b, err := readBeginning(ctx, t, reqs)
		if err != nil {
			return err
		}
		b.now = now
		if err := s.readHolders(ctx, t, b); err != nil {
			return err
		}
		for i := range reqs {
			results[i] = ledger.Begin(&reqs[i], b.facts(&reqs[i]), now)
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

// beginning has the facts of one Begin.
type beginning struct {
	now       time.Time
	requests  map[schedule.Key]schedule.ExecutionRequest
	runs      map[schedule.Key]*ledger.BeginRun
	schedules map[string]schedule.Schedule // only what the checks need
	grants    map[schedule.GrantRef]*schedule.Grant
	holders   map[int32]*ledger.Holder // of keys whose leases run
	granted   []any                    // the arguments of keys that are new, in order
}

// beginArgs is how many arguments a new key has.
const beginArgs = 6

func readBeginning(ctx context.Context, t tx, reqs []schedule.BeginRequest) (*beginning, error) {
	b := &beginning{
		requests: make(map[schedule.Key]schedule.ExecutionRequest), runs: make(map[schedule.Key]*ledger.BeginRun, len(reqs)),
		schedules: make(map[string]schedule.Schedule),
	}
	keys := make([]schedule.Key, len(reqs))
	refs := make([]schedule.GrantRef, len(reqs))
	for i := range reqs {
		keys[i], refs[i] = reqs[i].Key, reqs[i].Grant.Ref()
	}
	if err := b.readOpen(ctx, t, keys); err != nil {
		return nil, fmt.Errorf("read open runs: %w", err)
	}
	if err := b.readEnded(ctx, t, keys); err != nil {
		return nil, err
	}
	if err := b.readSchedules(ctx, t, reqs); err != nil {
		return nil, err
	}
	var err error
	b.grants, err = readGrants(ctx, t, refs)
	return b, err
}

// readOpen reads open runs with their schedules and records, in one statement: nearly
// all calls are of such a run.
func (b *beginning) readOpen(ctx context.Context, t tx, keys []schedule.Key) error {
	var run runRow
	var request requestRow
	var deleted, until instant
	var paused flag
	columns := append([]any{&run.key, &run.scheduleID, &run.status, &run.trigger, &run.cancel, &run.cancelReason, &deleted, &paused, &until}, request.columns()...)
	return t.query(ctx, sqlBeginRuns, func(scan scan) error {
		if err := scan(columns...); err != nil {
			return err
		}
		r := run.run()
		b.runs[r.Key] = ledger.BeginRunOf(&r)
		if _, known := b.schedules[r.ScheduleID]; !known {
			b.schedules[r.ScheduleID] = checkedSchedule(deleted, paused, until)
		}
		if request.state != "" {
			b.requests[r.Key] = request.request()
		}
		return nil
	}, keyList(keys))
}

func checkedSchedule(deleted instant, paused flag, until instant) schedule.Schedule {
	return schedule.Schedule{DeletedAt: deleted.Time, Pause: schedule.Pause{Paused: bool(paused), Until: until.Time}}
}

// readEnded reads the records and ended runs of keys that are not open.
func (b *beginning) readEnded(ctx context.Context, t tx, keys []schedule.Key) error {
	var closed []schedule.Key
	for _, k := range keys {
		if b.runs[k] == nil {
			closed = append(closed, k)
		}
	}
	if len(closed) == 0 {
		return nil
	}
	requests, err := readRequests(ctx, t, closed)
	if err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	maps.Copy(b.requests, requests)
	var run runRow
	err = t.query(ctx, sqlBeginEnded, func(scan scan) error {
		err := scan(&run.key, &run.status, &run.reason, &run.trigger, &run.cancel, &run.cancelReason)
		r := run.run()
		b.runs[r.Key] = ledger.BeginRunOf(&r)
		return err
	}, keyList(closed))
	if err != nil {
		return fmt.Errorf("read ended runs: %w", err)
	}
	return nil
}

// readSchedules reads the schedules of requests that no open run has brought.
func (b *beginning) readSchedules(ctx context.Context, t tx, reqs []schedule.BeginRequest) error {
	var ids []string
	for i := range reqs {
		if _, known := b.schedules[reqs[i].ScheduleID]; !known {
			ids = append(ids, reqs[i].ScheduleID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var id string
	var deleted, until instant
	var paused flag
	err := t.query(ctx, sqlBeginSchedules, func(scan scan) error {
		err := scan(&id, &deleted, &paused, &until)
		b.schedules[id] = checkedSchedule(deleted, paused, until)
		return err
	}, list(ids))
	if err != nil {
		return fmt.Errorf("read schedules: %w", err)
	}
	return nil
}

// facts returns the facts about one key.
func (b *beginning) facts(q *schedule.BeginRequest) *ledger.BeginFacts {
	f := ledger.BeginFacts{Run: b.runs[q.Key], Grant: b.grants[q.Grant.Ref()]}
	if there, known := b.requests[q.Key]; known {
		f.Known, f.Holder = &there, b.holders[there.Holder]
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

// insert inserts the keys that were granted for the first time.
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
