package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// LoadOpen reads the open runs of a term, or the planned runs of a part of its window.
func (s *Store) LoadOpen(ctx context.Context, term schedule.Term, from, until time.Time) (open ledger.Open, err error) {
	err = s.readers.snapshot(ctx, func(q querier) error {
		o := openReader{q: q}
		o.first, o.last = term.Buckets()
		open, err = s.loadOpen(ctx, &o, term, from, until)
		return err
	})
	if err != nil {
		return ledger.Open{}, fmt.Errorf("load open runs: %w", err)
	}
	return open, nil
}

func (s *Store) loadOpen(ctx context.Context, o *openReader, term schedule.Term, from, until time.Time) (open ledger.Open, err error) {
	last, err := readNumber(ctx, o.q, sqlLastChange)
	if err != nil {
		return open, fmt.Errorf("read position: %w", err)
	}
	open.Position = s.position(last)
	var seen instant
	if err := o.q.query(ctx, sqlSeenUntil, func(scan scan) error { return scan(&seen) }, term.Shard); err != nil {
		return open, fmt.Errorf("read seen_until: %w", err)
	}
	open.SeenUntil = seen.Time
	after := int64(math.MinInt64)
	if !from.IsZero() {
		after = from.UnixMicro()
	} else {
		if err := o.read(ctx, sqlLoadGroups, o.first, o.last); err != nil {
			return open, err
		}
		if open.Wakes, err = dialect.WakesOf(ctx, queries{o.q}, nil, o.first, o.last); err != nil {
			return open, err
		}
	}
	if err := o.read(ctx, sqlLoadPlanned, o.first, o.last, after, until.UnixMicro()); err != nil {
		return open, err
	}
	open.Runs = o.runs
	open.Stopped, err = o.schedules(ctx, o.stopped)
	return open, err
}

// openReader reads open runs of a term's buckets.
type openReader struct {
	q           querier
	first, last int
	runs        []ledger.Run
	stopped     []string // their schedules that are deleted or paused, once each
}

// read adds the runs of a statement that selects openColumns.
func (o *openReader) read(ctx context.Context, statement string, args ...any) error {
	var (
		k, retryOf                                  key
		id, overlapKey                              text
		status                                      status
		trigger                                     trigger
		policy                                      policy
		revision, maxQueued, priority, epoch        number
		runAt, fireAt, claimedUntil                 instant
		waitingSince, startBy                       instant
		exclusive, cancelRequested, stopped, queued flag
	)
	columns := []any{
		&k, &id, &revision, &overlapKey, &runAt, &fireAt, &status, &waitingSince, &trigger, &policy, &exclusive, &maxQueued, &priority, &epoch,
		&claimedUntil, &cancelRequested, &stopped, &startBy, &retryOf, &queued,
	}
	return o.q.query(ctx, statement, func(scan scan) error {
		if err := scan(columns...); err != nil {
			return err
		}
		run := ledger.Run{
			Key: schedule.Key(k), ScheduleID: string(id), Revision: int64(revision), OverlapKey: string(overlapKey), RunAt: runAt.Time, FireAt: fireAt.Time,
			Status: schedule.Status(status), WaitingSince: waitingSince.Time, Trigger: schedule.Trigger(trigger), Policy: schedule.OverlapPolicy(policy),
			Exclusive: bool(exclusive), MaxQueued: uint32(maxQueued), Priority: int32(priority), Epoch: int64(epoch), NextSend: claimedUntil.Time, CancelRequested: bool(cancelRequested),
			StartBy: startBy.Time, Queued: bool(queued),
		}
		run.NoteRetry(schedule.Key(retryOf))
		o.runs = append(o.runs, run)
		if stopped {
			o.stopped = append(o.stopped, string(id))
		}
		return nil
	}, args...)
}

// schedules reads which of the schedules are deleted or paused, without their runs.
func (o *openReader) schedules(ctx context.Context, ids []string) (found []ledger.ScheduleNow, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	var id, note, by text
	var deleted, paused flag
	var until instant
	err = o.q.query(ctx, sqlStopped, func(scan scan) error {
		err := scan(&id, &deleted, &paused, &note, &by, &until)
		found = append(found, ledger.ScheduleNow{
			ScheduleID: string(id), Deleted: bool(deleted),
			Pause: schedule.Pause{Paused: bool(paused), Note: string(note), By: string(by), Until: until.Time},
		})
		return err
	}, list(slices.Compact(ids)))
	if err != nil {
		return nil, fmt.Errorf("read schedules: %w", err)
	}
	return found, nil
}

// readChanges reads the changes after a position and the current state of what they name.
func (s *Store) readChanges(ctx context.Context, o *openReader, from ledger.Position) (c ledger.Changes, next ledger.Position, err error) {
	after, last, err := s.readPosition(ctx, o.q, from)
	if err != nil || after == last {
		return c, from, err
	}
	var schedules, woken []string
	again, named := make(map[schedule.Key]bool), make(map[schedule.Key]bool)
	err = o.q.query(ctx, sqlChanges, func(scan scan) error {
		var kind int
		var ids text
		var keys []byte
		if err := scan(&kind, &ids, &keys); err != nil {
			return err
		}
		for k := range slices.Chunk(keys, len(schedule.Key{})) {
			named[schedule.Key(k)] = true
			if changeKind(kind) != runEnded {
				again[schedule.Key(k)] = true
			}
		}
		if ids == "" {
			return nil
		}
		var some []string
		err := json.Unmarshal([]byte(ids), &some)
		if changeKind(kind) == consumerWoken {
			woken = append(woken, some...)
		} else {
			schedules = append(schedules, some...)
		}
		return err
	}, after, o.first, o.last)
	if err != nil {
		return c, from, fmt.Errorf("read what has changed: %w", err)
	}
	if c, err = o.changes(ctx, again, schedules); err != nil {
		return c, from, err
	}
	if c.Woken = append(woken, schedules...); len(c.Woken) > 0 {
		if c.Wakes, err = dialect.WakesOf(ctx, queries{o.q}, c.Woken, o.first, o.last); err != nil {
			return c, from, err
		}
	}
	for i := range c.Runs {
		delete(named, c.Runs[i].Key) // ended once, and inserted again
	}
	for k := range named {
		c.Ended = append(c.Ended, k)
	}
	return c, s.position(last), nil
}

// changes reads runs and schedules again.
func (o *openReader) changes(ctx context.Context, again map[schedule.Key]bool, schedules []string) (c ledger.Changes, err error) {
	keys := make([]schedule.Key, 0, len(again))
	for k := range again {
		keys = append(keys, k)
	}
	if len(keys) > 0 {
		if err := o.read(ctx, sqlOpenOfKeys, keyList(keys), o.first, o.last); err != nil {
			return c, fmt.Errorf("read runs again: %w", err)
		}
	}
	c.Runs, o.runs = o.runs, nil
	if c.Schedules, err = o.schedules(ctx, append(schedules, o.stopped...)); err != nil {
		return c, err
	}
	for i := range c.Schedules {
		of := &c.Schedules[i]
		if err := o.read(ctx, sqlPlannedOfSchedule, of.ScheduleID, o.first, o.last); err != nil {
			return c, fmt.Errorf("read planned runs of schedule %s: %w", of.ScheduleID, err)
		}
		of.Planned, o.runs = o.runs, nil
	}
	o.stopped = nil
	return c, nil
}

// position is a read position. It is valid for this opening of the file only: another
// file may have the same numbers.
func (s *Store) position(last int64) ledger.Position {
	return ledger.Position(s.opening + ":" + strconv.FormatInt(last, 10))
}

// readPosition is the change that a position lies after, and the last one that
// there is.
func (s *Store) readPosition(ctx context.Context, q querier, p ledger.Position) (after, last int64, err error) {
	opening, number, _ := strings.Cut(string(p), ":")
	after, err = strconv.ParseInt(number, 10, 64)
	if err != nil || opening != s.opening {
		return 0, 0, ledger.ErrPositionLost
	}
	if last, err = readNumber(ctx, q, sqlLastChange); err != nil {
		return 0, 0, fmt.Errorf("read the last change: %w", err)
	}
	pruned, err := readNumber(ctx, q, sqlPrunedChange)
	if err != nil {
		return 0, 0, fmt.Errorf("read which changes are pruned: %w", err)
	}
	if after > last || after < pruned {
		return 0, 0, ledger.ErrPositionLost
	}
	return after, last, nil
}

// readNumber returns 0 if there is no row.
func readNumber(ctx context.Context, q querier, statement string) (n int64, err error) {
	err = q.query(ctx, statement, func(scan scan) error { return scan(&n) })
	return n, err
}
