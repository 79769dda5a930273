package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// ChangeRun hands one run and all that a change of it depends on to decide and
// writes what it says. An error of decide comes back as it is.
func (s *Store) ChangeRun(ctx context.Context, key, existing schedule.Key, decide func(schedule.RunInput) (schedule.RunChange, error)) (after schedule.Run, moved bool, err error) {
	var refused error
	err = s.write(ctx, func(t *tx) error {
		run := t.runs[key]
		if run == nil {
			return schedule.ErrNotFound
		}
		change, err := decide(t.runInput(run, existing))
		if err != nil {
			refused = err
			return err
		}
		after, moved = t.writeRunChange(run, &change)
		t.wake = moved && change.CausesWork()
		return nil
	})
	if refused != nil {
		return schedule.Run{}, false, refused
	}
	if err != nil {
		return schedule.Run{}, false, fmt.Errorf("change run %s: %w", key, err)
	}
	return after, moved, nil
}

func (t *tx) runInput(run *schedule.Run, existing schedule.Key) schedule.RunInput {
	in := schedule.RunInput{Run: *run, Queue: t.queueOf(run.Queue.No), InFlight: t.inFlight(run.OverlapKey)}
	if s := t.schedules[run.ScheduleID]; s != nil {
		in.Schedule = copyOf(s)
	}
	if v := t.revisions[revisionID{run.ScheduleID, run.Revision}]; v != nil {
		d := v.Definition
		in.Definition = &d
	}
	if other := t.runs[existing]; other != nil {
		row := *other
		in.Existing = &row
	}
	return in
}

func (t *tx) writeRunChange(run *schedule.Run, c *schedule.RunChange) (after schedule.Run, moved bool) {
	if c.Settle != nil {
		e := *c.Settle
		e.Key = run.Key
		moved = t.settle(&e, c.Now)
	}
	if c.AskCancel != "" && t.askCancel(run, c.AskCancel, c.Now) {
		moved = true
	}
	stands := run
	if c.Insert != nil {
		row := *c.Insert
		t.drawFair(c.Now, &row)
		moved = t.insert(row, c.Now) || moved
		stands = t.runs[c.Insert.Key]
		if c.Redriven && run.IsDead() {
			t.change(run, func(r *schedule.Run) { r.Dead = new(bool) })
		}
	}
	first := t.noteLateReport(run.Key, c.LateReport)
	if first {
		t.note(run.ScheduleID, c.Events, c.Now)
	}
	counted := slices.Contains(t.counted, run) // what it has reported goes with it
	if !counted && !c.Report.Empty() && (moved || c.LateReport != "" && first) {
		t.writeReport(run, c.Report, c.Now)
	}
	t.audit(c.Audit, c.Now)
	return *stands, moved
}

// noteLateReport reports whether this is the first late report of its status for
// the run; empty is none, which is always the first.
func (t *tx) noteLateReport(key schedule.Key, reported schedule.Status) (first bool) {
	bit, before := schedule.LateReportBit(reported), t.lateReports[key]
	if bit != 0 && before&bit != 0 {
		return false
	}
	if bit != 0 {
		t.lateReports[key] = before | bit
		t.undo = append(t.undo, func() { t.lateReports[key] = before })
	}
	return true
}

// askCancel requests the cancel of a run, unless that was done before.
func (t *tx) askCancel(r *schedule.Run, reason schedule.Reason, now time.Time) (asked bool) {
	after, asked := ledger.AskCancel(*r, reason, now)
	if asked {
		t.change(r, func(r *schedule.Run) { *r = after })
	}
	return asked
}

// GetRun is one row of the ledger; schedule.ErrNotFound.
func (s *Store) GetRun(ctx context.Context, key schedule.Key) (run *schedule.Run, err error) {
	err = s.read(ctx, func() error {
		found := s.runs[key]
		if found == nil {
			return schedule.ErrNotFound
		}
		row := *found
		run = &row
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("get run %s: %w", key, err)
	}
	return run, nil
}

// LaunchAttempts are the last failed attempts to launch a run, oldest first.
func (s *Store) LaunchAttempts(ctx context.Context, key schedule.Key) (attempts []schedule.LaunchAttempt, err error) {
	err = s.read(ctx, func() error {
		attempts, err = schedule.ReadAttempts(s.attempts[key])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("launch attempts of run %s: %w", key, err)
	}
	return attempts, nil
}

// logAttempt writes the attempt that a settlement records.
func (t *tx) logAttempt(s *schedule.Settlement) {
	before := t.attempts[s.Key]
	if after := ledger.LogAttempt(before, s); after != before {
		t.attempts[s.Key] = after
		t.undo = append(t.undo, func() { t.attempts[s.Key] = before })
	}
}

// ListRuns goes by run_at, newest first unless Ascending, or is the feed of what
// was updated last.
func (s *Store) ListRuns(ctx context.Context, f schedule.RunFilter) (runs []schedule.Run, err error) {
	err = s.read(ctx, func() error {
		runs = s.listed(&f)
		return nil
	})
	return runs[:min(len(runs), schedule.PageSize(f.Limit))], err
}

// listed has the runs of a filter in its order, without its limit.
func (s *Store) listed(f *schedule.RunFilter) (runs []schedule.Run) {
	now := either(f.Now, s.Now())
	for _, r := range s.runs {
		if shown(r, f, now) {
			runs = append(runs, *r)
		}
	}
	slices.SortFunc(runs, func(a, b schedule.Run) int {
		if !f.UpdatedAfter.IsZero() {
			return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), slices.Compare(a.Key[:], b.Key[:]))
		}
		if f.Ascending {
			a, b = b, a
		}
		return cmp.Or(b.RunAt.Compare(a.RunAt), slices.Compare(b.Key[:], a.Key[:]))
	})
	return runs
}

func shown(r *schedule.Run, f *schedule.RunFilter, now time.Time) bool {
	switch {
	case f.ScheduleID != "" && r.ScheduleID != f.ScheduleID,
		f.UserID != "" && r.UserID != f.UserID,
		f.WorkflowID != "" && r.WorkflowID != f.WorkflowID,
		len(f.Statuses) > 0 && !slices.Contains(f.Statuses, r.Status),
		f.Reason != "" && r.Reason != f.Reason,
		f.Dead && !r.IsDead(),
		f.ErrorCode != "" && r.ErrorCode != f.ErrorCode,
		f.Class != "" && r.FailureClass != f.Class,
		f.AnyOf != nil && !slices.Contains(f.AnyOf, r.Key),
		f.Trigger != "" && r.Trigger != f.Trigger,
		f.QueueNo != 0 && r.Queue.No != f.QueueNo,
		f.GroupNo != 0 && r.Queue.GroupNo != f.GroupNo,
		f.RunID != "" && r.RunID != f.RunID,
		f.TraceID != "" && r.TraceID != f.TraceID && !schedule.TraceKeys(f.TraceID).Contains(r.Key),
		!f.Keys.IsZero() && !f.Keys.Contains(r.Key),
		!f.DueBefore.IsZero() && !due(r, f.DueBefore),
		!f.From.IsZero() && r.RunAt.Before(f.From),
		!f.To.IsZero() && !r.RunAt.Before(f.To),
		!slices.Contains(f.Statuses, schedule.StatusPlanned) && r.Status == schedule.StatusPlanned && r.RunAt.After(now):
		return false
	case !f.UpdatedAfter.IsZero():
		return cmp.Or(r.UpdatedAt.Compare(at(f.UpdatedAfter)), slices.Compare(r.Key[:], f.UpdatedKey[:])) > 0
	case !f.AfterRunAt.IsZero():
		behind := cmp.Or(r.RunAt.Compare(at(f.AfterRunAt)), slices.Compare(r.Key[:], f.AfterKey[:]))
		return behind < 0 != f.Ascending && behind != 0
	}
	return true
}

// due is what RunFilter.DueBefore finds.
func due(r *schedule.Run, before time.Time) bool {
	open := r.Status == schedule.StatusLaunching || r.Status == schedule.StatusPlanned && r.WaitingSince.IsZero()
	return open && r.FireAt.Before(before)
}

// CancelRequests reads runs whose cancel is requested; see worker.FireStore.
func (s *Store) CancelRequests(ctx context.Context, keys []schedule.Key) (runs []schedule.Run, err error) {
	err = s.read(ctx, func() error {
		for _, key := range keys {
			if r := s.runs[key]; r != nil && r.Status.InFlight() && !r.CancelRequestedAt.IsZero() {
				runs = append(runs, *r)
			}
		}
		return nil
	})
	slices.SortFunc(runs, func(a, b schedule.Run) int {
		return cmp.Or(a.CancelRequestedAt.Compare(b.CancelRequestedAt), slices.Compare(a.Key[:], b.Key[:]))
	})
	return runs, err
}
