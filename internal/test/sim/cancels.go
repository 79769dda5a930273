package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// The checker's own rules of cancels of many runs: nothing here may use package ledger, or the
// methods of a run.

// manyCancel is a cancel of many runs. It is known before the call.
type manyCancel struct {
	filter  schedule.RunFilter
	waiting bool                  // only runs that wait
	dry     bool                  // nothing may change
	open    map[schedule.Key]int  // runs of queues that it is for and that were open at its begin, with their admissions
	flying  map[schedule.Key]bool // those of them that were in flight
	ended   []schedule.Key        // by its transactions
	asked   []schedule.Key        // likewise
	commits int
}

// isFor reports whether the filter finds a run.
func (c *manyCancel) isFor(r *schedule.Run) bool {
	f := &c.filter
	return (f.QueueNo == 0 || r.Queue.No == f.QueueNo) && (f.ScheduleID == "" || r.ScheduleID == f.ScheduleID) && (f.AnyOf == nil || slices.Contains(f.AnyOf, r.Key))
}

// cancelMany cancels the runs of a filter, a few in each call.
func (w *world) cancelMany(n int, d dice) {
	no, ok := w.watch.queueNo(queueID(n))
	if !ok {
		return
	}
	c := &manyCancel{dry: d.of(1).perMille(150)}
	switch x := d.of(2).below(10); {
	case x < 4:
		c.filter.QueueNo = no
	case x < 6:
		c.filter.QueueNo, c.filter.ScheduleID = no, pick(d.of(3), jobSchedules...)
	case x < 8:
		c.filter.ScheduleID = pick(d.of(3), append([]string{"s0", "s1"}, jobSchedules...)...)
	default:
		for i := range uint64(3) {
			if key, ok := w.watch.someJob(n, d.of(3).of(i), false); ok {
				c.filter.AnyOf = append(c.filter.AnyOf, key)
			}
		}
		if c.filter.AnyOf == nil {
			return
		}
	}
	in := registrar.CancelRunsInput{Filter: c.filter, DryRun: c.dry}
	in.Filter.Limit = d.of(4).within(1, 4)
	w.watch.cancelsMany(c)
	var sum registrar.CancelledRuns
	for {
		var page registrar.CancelledRuns
		err := w.insist(func(ctx context.Context) (err error) {
			page, err = w.registrar.CancelRuns(ctx, in)
			return err
		})
		sum.Cancelled, sum.Requested = sum.Cancelled+page.Cancelled, sum.Requested+page.Requested
		if err != nil || page.Next == nil {
			w.cancelledMany(c, sum, err)
			return
		}
		in.Page = *page.Next
	}
}

// pauseAndCancel pauses a queue and cancels what waits in it.
func (w *world) pauseAndCancel(n int) {
	no, ok := w.watch.queueNo(queueID(n))
	if !ok {
		return
	}
	c := &manyCancel{filter: schedule.RunFilter{QueueNo: no}, waiting: true}
	w.watch.cancelsMany(c)
	var out registrar.PausedQueue
	err := w.insist(func(ctx context.Context) (err error) {
		out, err = w.registrar.PauseQueue(ctx, registrar.PauseQueueInput{QueueID: queueID(n), CancelWaiting: true})
		return err
	})
	if err == nil {
		w.watch.queuePauseAnswered(queueID(n), w.elapsed())
	}
	w.cancelledMany(c, registrar.CancelledRuns{Cancelled: out.Cancelled}, err)
}

func (w *world) cancelledMany(c *manyCancel, sum registrar.CancelledRuns, err error) {
	w.log.say(w.elapsed(), "user: cancel of queue %d, schedule %q, %d keys, waiting %t, dry %t: %d cancelled, %d asked: %v",
		c.filter.QueueNo, c.filter.ScheduleID, len(c.filter.AnyOf), c.waiting, c.dry, sum.Cancelled, sum.Requested, err)
	w.watch.cancelledMany(c, sum, err)
}

func (l *ledgerWatch) queueNo(id string) (int32, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for no, q := range l.queues {
		if q.row.QueueID == id {
			return no, true
		}
	}
	return 0, false
}

// cancelsMany is the pending cancel of a user.
func (l *ledgerWatch) cancelsMany(c *manyCancel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.many, c.open, c.flying = c, make(map[schedule.Key]int), make(map[schedule.Key]bool)
	for _, j := range l.jobOrder {
		if p := placeOf(&j.row); p != placeEnded && l.mayCancel(j) {
			c.open[j.row.Key] = j.admissions
			c.flying[j.row.Key] = p.inFlight()
		}
	}
}

// mayCancel notes that the pending cancel may end a run.
func (l *ledgerWatch) mayCancel(j *job) bool {
	if l.many == nil || !l.many.isFor(&j.row) {
		return false
	}
	j.cancelled = j.cancelled || !l.many.dry
	return true
}

// cancelsEach sees what a transaction of the pending cancel has found, and done.
func (l *ledgerWatch) cancelsEach(found []schedule.Run, change *schedule.CancelChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.many
	count := 0
	for i := range change.End {
		c.ended = append(c.ended, l.cancelsOne(c, found, change.End[i].Key, change.Now, c.ended))
	}
	for _, key := range change.Ask {
		c.asked = append(c.asked, l.cancelsOne(c, found, key, change.Now, c.asked))
	}
	for i := range change.Events {
		count += int(change.Events[i].Count)
	}
	if count != len(change.End)+len(change.Ask) {
		l.violation("a cancel of %d runs, and %d that are in flight, has events of %d", len(change.End), len(change.Ask), count)
	}
	c.commits++
	switch {
	case len(change.End) > 1:
		l.coverage.situations[manyCancelled].Add(1)
	case c.commits > 1 && len(c.ended)+len(c.asked) > 0:
		l.coverage.situations[manyInPages].Add(1)
	}
	if len(change.Ask) > 0 {
		l.coverage.situations[manyAsked].Add(1)
	}
}

// cancelsOne checks one of the runs, which the transaction has written.
func (l *ledgerWatch) cancelsOne(c *manyCancel, found []schedule.Run, key schedule.Key, now time.Time, before []schedule.Key) schedule.Key {
	at := slices.IndexFunc(found, func(r schedule.Run) bool { return r.Key == key })
	if at < 0 || !c.isFor(&found[at]) || c.dry {
		l.violation("the run %.12s was cancelled by a cancel that is not for it (dry run: %t)", key, c.dry)
		return key
	}
	r, h := &found[at], l.rows[key]
	switch {
	case slices.Contains(before, key):
		l.violation("the run %.12s was cancelled twice by one cancel", key)
	case c.waiting && placeOf(r).inFlight():
		l.violation("the run %.12s was in flight, and was cancelled with those that wait", key)
	case r.Queue.No == 0 && r.Status == schedule.StatusPlanned && r.RunAt.After(now) && c.filter.AnyOf == nil:
		l.violation("the slot %s of %s is still to come, and was cancelled with others", l.at(r.RunAt), r.ScheduleID)
	case h == nil || !ended(h.row.Status) && h.row.CancelRequestedAt.IsZero():
		l.violation("the run %.12s was cancelled, and goes on", key)
	}
	return key
}

// cancelledMany: once a cancel is answered, none of the runs that it was for goes on as before.
func (l *ledgerWatch) cancelledMany(c *manyCancel, sum registrar.CancelledRuns, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.many = nil
	switch {
	case c.dry && len(c.ended)+len(c.asked) > 0:
		l.violation("a dry run has cancelled %d runs", len(c.ended)+len(c.asked))
	case c.dry || err != nil:
		return
	case sum.Cancelled > len(c.ended) || sum.Requested > len(c.asked):
		l.violation("a cancel says %d and %d, and has cancelled %d and asked for %d", sum.Cancelled, sum.Requested, len(c.ended), len(c.asked))
	case sum.Cancelled+sum.Requested < len(c.ended)+len(c.asked):
		l.coverage.situations[manyAgain].Add(1) // an answer was lost
	}
	for _, key := range sortedKeys(c.open) {
		j := l.jobs[key]
		p := placeOf(&j.row)
		goesOn := p != placeEnded && j.row.CancelRequestedAt.IsZero()
		if c.waiting {
			goesOn = p != placeEnded && !c.flying[key] && !p.inFlight() && j.admissions == c.open[key]
		}
		if goesOn {
			l.violation("the job %.12s is %s after the cancel of what it belongs to was answered", key, fmt.Sprint(j.row.Queue.State, " ", j.row.Status))
		}
	}
}

func sortedKeys(m map[schedule.Key]int) (keys []schedule.Key) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b schedule.Key) int { return slices.Compare(a[:], b[:]) })
	return keys
}

// CancelRuns see Enqueue.
func (a apiStore) CancelRuns(ctx context.Context, f schedule.RunFilter, decide func([]schedule.Run) (schedule.CancelChange, error)) (page schedule.RunPage, err error) {
	err = a.away.tell(ctx, siteCancelRuns, 0, func() (err error) {
		var seen []schedule.Run
		var change schedule.CancelChange
		page, err = a.Store.CancelRuns(context.WithoutCancel(ctx), f, func(found []schedule.Run) (schedule.CancelChange, error) {
			out, err := decide(found)
			seen, change = slices.Clone(found), out
			return out, err
		})
		if err == nil {
			a.away.watch.cancelsEach(seen, &change)
		}
		return err
	})
	if err != nil {
		return schedule.RunPage{}, err
	}
	return page, nil
}
