package sim

import (
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// The checker's own rules of queues that keep only failures: nothing here may use package ledger, or
// the methods of a queue or of a run.

// minuteOf names a count: of starts or ends of a queue in a minute.
type minuteOf struct {
	queueNo int32
	minute  time.Time
	ended   bool
}

// jobRemoved: only a success that nobody needs has no row, and only in the transaction of its end.
func (l *ledgerWatch) jobRemoved(r *schedule.Run) {
	j := l.jobs[r.Key]
	now := slices.ContainsFunc(l.endings, func(e ending) bool { return e.after.Key == r.Key })
	if !now || l.needed(j) == needsRow {
		l.violation("the row of the job %.12s of %s was deleted while %s(%s)", r.Key, r.ScheduleID, r.Status, r.Reason)
	}
	j.counted = true
	l.coverage.situations[jobCounted].Add(1)
}

// countedRow is the last row of a run that has ended without one; nil: there is a row, or none ever was.
func (l *ledgerWatch) countedRow(key schedule.Key) *schedule.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j := l.jobs[key]; j != nil && j.counted {
		row := j.row
		return &row
	}
	return nil
}

// keptRow: an end that leaves a row needs it.
func (l *ledgerWatch) keptRow(r *schedule.Run) {
	j := l.jobs[r.Key]
	if j == nil || j.counted {
		return
	}
	if l.needed(j) == needsNone {
		l.violation("the job %.12s of %s has ended SUCCESS with a row, although its queue keeps only failures", r.Key, r.ScheduleID)
	}
	if r.Status == schedule.StatusSuccess && l.queues[r.Queue.No].row.History == "failed" {
		l.coverage.situations[jobNeeded].Add(1)
	}
}

type need int

const (
	needsRow need = iota
	needsNone
	needsEither // the period of its key is over by some clocks
)

// needed says whether a job that has ended needs a row.
func (l *ledgerWatch) needed(j *job) need {
	r := &j.row
	told := j.hook.target != "" && slices.Contains(j.hook.events, "run.succeeded")
	if l.queues[r.Queue.No].row.History != "failed" || r.Status != "SUCCESS" || j.slot || j.awaited || told ||
		r.Queue.GroupNo != 0 || r.Trigger != "job" || r.RetryOf != (schedule.Key{}) || !r.CancelRequestedAt.IsZero() || j.follows {
		return needsRow
	}
	if hasResult(r.Key) && r.Reason != "accepted" { // of the answer or report that has ended it
		return needsRow
	}
	for _, h := range l.keys {
		if h.run == r.Key && h.scope == schedule.UniquePeriod {
			if h.until.Before(time.Now().Add(l.profile.maxSkew + time.Second)) {
				return needsEither
			}
			return needsRow
		}
	}
	return needsNone
}

// awaits checks that a new job is kept if its caller waits for it, or its schedule has slots.
func (l *ledgerWatch) awaits(r *schedule.Run, waits bool) {
	of := l.rules[revisionID{r.ScheduleID, r.Revision}]
	want := waits || of.step != 0
	if r.Queue.KeepHistory != want {
		l.violation("the job %.12s of %s keeps its row: %t, want %t", r.Key, r.ScheduleID, r.Queue.KeepHistory, want)
	}
	l.jobs[r.Key].awaited = want
}

// minutesAdd: the counts of each queue are those of its successes without a row.
func (w *world) minutesAdd() {
	l := w.watch
	want := make(map[minuteOf]int64)
	for _, j := range l.jobOrder {
		if j.counted {
			r := &j.row
			want[minuteOf{r.Queue.No, r.ClaimedAt.Truncate(time.Minute), false}]++
			want[minuteOf{r.Queue.No, r.CompletedAt.Truncate(time.Minute), true}]++
		}
	}
	for no := range l.queues {
		got, err := w.ledger.QueueMinutes(context.Background(), no, time.Time{}, 1<<20)
		if err != nil {
			w.violation("read the minutes: %v", err)
		}
		for _, m := range got {
			want[minuteOf{no, m.Minute, m.Ended}] -= m.Runs
		}
	}
	for of, n := range want {
		if n != 0 {
			w.violation("queue %d in the minute of %s (ends: %t): %d successes without a row are not counted", of.queueNo, w.at(of.minute), of.ended, n)
		}
	}
}
