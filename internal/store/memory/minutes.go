package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// minuteID is the primary key of queue_minutes, without the writer: a transaction is alone.
type minuteID struct {
	queueNo    int32
	minute     time.Time
	workflowID string
	ended      bool
}

// countedOnly reports whether a run that ends gets no row of history.
func (t *tx) countedOnly(r *schedule.Run) bool {
	q := t.queueOf(r.Queue.No)
	if q == nil || q.HistoryText() == "" {
		return false
	}
	var hold *schedule.UniqueHold
	for _, h := range t.uniques {
		if h.RunKey == r.Key {
			hold = &h
		}
	}
	return ledger.CountedOnly(r, q.HistoryText(), q.WebhookOf().Text(), hold, t.results[r.Key] != nil || t.commits[r.Key] != nil)
}

// countEnds adds the runs that history does not keep to their minutes, and removes them.
func (t *tx) countEnds() {
	counts := ledger.CountMinutes(len(t.counted), func(i int) (*schedule.Run, string) {
		workflow := ""
		if s := t.schedules[t.counted[i].ScheduleID]; s != nil {
			workflow = s.WorkflowID
		}
		return t.counted[i], workflow
	})
	for _, c := range counts {
		id := minuteID{c.QueueNo, c.Minute, c.Of, c.Ended}
		m := t.minutes[id]
		m.QueueNo, m.Minute, m.WorkflowID, m.Ended = c.QueueNo, c.Minute, c.Of, c.Ended
		m.Runs += c.Runs
		m.Wait += time.Duration(c.WaitMS) * time.Millisecond
		m.Run += time.Duration(c.RunMS) * time.Millisecond
		putUndone(t, t.minutes, id, m, true)
	}
	for _, r := range t.counted {
		t.remove(r)
	}
}

// QueueMinutes are the minutes of a queue since an instant, newest first: those of up to limit rows.
func (s *Store) QueueMinutes(ctx context.Context, queueNo int32, since time.Time, limit int) (minutes []schedule.QueueMinute, err error) {
	err = s.read(ctx, func() error {
		minutes = s.minutesOf(queueNo, since)
		minutes = minutes[:min(limit, len(minutes))]
		return nil
	})
	return minutes, err
}

func (s *Store) minutesOf(queueNo int32, since time.Time) []schedule.QueueMinute {
	minutes := slices.DeleteFunc(slices.Collect(maps.Values(s.minutes)), func(m schedule.QueueMinute) bool {
		return m.QueueNo != queueNo || m.Minute.Before(since)
	})
	slices.SortFunc(minutes, func(a, b schedule.QueueMinute) int {
		return cmp.Or(b.Minute.Compare(a.Minute), cmp.Compare(a.WorkflowID, b.WorkflowID), schedule.FalseFirst(a.Ended, b.Ended))
	})
	return minutes
}

// QueuePace counts the starts and ends of a queue in the last minutes, whatever the limit.
func (s *Store) QueuePace(ctx context.Context, queueNo int32, now time.Time, _ int) (schedule.QueuePace, error) {
	p := schedule.QueuePace{Since: schedule.PaceSince(now)}
	err := s.read(ctx, func() error {
		for _, m := range s.minutesOf(queueNo, p.Since) {
			if m.Ended {
				p.Ends += int(m.Runs)
			} else {
				p.Starts += int(m.Runs)
			}
		}
		for _, r := range s.runs {
			recent := !r.ClaimedAt.IsZero() && !r.ClaimedAt.Before(p.Since)
			switch {
			case r.Queue.No != queueNo:
			case !r.Status.Terminal() && r.Queue.State.Admitted() && recent:
				p.Starts++
			case r.Status.Terminal() && !r.CompletedAt.Before(p.Since):
				p.Ends++
				if recent {
					p.Starts++
				}
			}
		}
		return nil
	})
	return p, err
}

// pruneMinutes deletes minutes from before an instant.
func (t *tx) pruneMinutes(before time.Time, limit int) (pruned int) {
	for id, m := range t.minutes {
		if m.Minute.Before(before) && pruned < limit {
			putUndone(t, t.minutes, id, m, false)
			pruned++
		}
	}
	return pruned
}
