package sim

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// jobAdmitted: what was due starts; commit compares it with the others.
func (l *ledgerWatch) jobAdmitted(at time.Duration, j *job, before *schedule.Run) {
	j.admissions++
	j.limit = int(l.queues[j.row.Queue.No].row.MaxInFlight)
	l.admissions = append(l.admissions, j)
	l.coverage.situations[jobAdmitted].Add(1)
	if j.admissions > 1 {
		l.coverage.situations[jobAdmittedAgain].Add(1)
	}
	if !before.CancelRequestedAt.IsZero() {
		l.violation("the job %.12s was admitted after its end was requested", j.row.Key)
	}
	if early := j.row.FireAt.Sub(l.began.Add(at)); early > 0 || j.row.Deliveries != before.Deliveries+1 {
		l.violation("the job %.12s was admitted %s early, with %d deliveries, before %d", j.row.Key, early, j.row.Deliveries, before.Deliveries)
	}
}

// compareJobs is the order of a queue: higher priority first, then by turn and position.
func compareJobs(a, b *job) int {
	return cmp.Or(schedule.FalseFirst(a.behind, b.behind), cmp.Compare(b.row.Priority, a.row.Priority), cmp.Compare(a.row.Queue.FairOrder, b.row.Queue.FairOrder), cmp.Compare(a.row.Queue.Position, b.row.Queue.Position), bytes.Compare(a.row.Key[:], b.row.Key[:]))
}

// waitingIn are the runs that wait in a queue, in its order.
func (l *ledgerWatch) waitingIn(no int32) (waiting []*job) {
	for _, j := range l.jobOrder {
		if j.row.Queue.No == no && placeOf(&j.row) == placeWaiting {
			waiting = append(waiting, j)
		}
	}
	slices.SortFunc(waiting, compareJobs)
	return waiting
}

func (l *ledgerWatch) inFlightIn(no int32) (n int) {
	for _, j := range l.jobOrder {
		if j.row.Queue.No == no && placeOf(&j.row).inFlight() {
			n++
		}
	}
	return n
}

// jobsCommitted checks the admissions and entries of a transaction by the state after it.
func (l *ledgerWatch) jobsCommitted(at time.Duration) {
	now := l.began.Add(at)
	passed := false // the admission before this one in the transaction was of a promoted run
	for i, j := range l.admissions {
		q := l.queues[j.row.Queue.No]
		if q.pausedAt(now) {
			l.violation("the job %.12s was admitted while its queue is paused until %s", j.row.Key, l.at(q.row.Pause.Until))
		}
		if n := l.inFlightIn(q.row.No); n > int(q.row.MaxInFlight) {
			l.violation("%d runs of %s are in flight after an admission, and max_in_flight is %d", n, q.row.QueueID, q.row.MaxInFlight)
		} else if n == int(q.row.MaxInFlight) && len(l.waitingIn(q.row.No)) > 0 {
			l.coverage.situations[queueFull].Add(1)
		}
		l.withinLimits(j)
		promoted := l.promoted(i, now)
		if promoted {
			l.coverage.situations[jobPromoted].Add(1)
		}
		if promoted && passed {
			l.violation("the job %.12s passed others right after another one that did", j.row.Key)
		}
		passed = promoted
		l.turnTaken(i, j)
		for _, w := range l.waitingIn(q.row.No) {
			// The end of a run that an admission refuses lets the next member of its group wait, after the choice.
			if compareJobs(w, j) < 0 && !promoted && w.letGo != at && !l.blocked(w, i) {
				l.violation("the job %.12s (priority %d, position %d) was admitted past %.12s (priority %d, position %d)",
					j.row.Key, j.row.Priority, j.row.Queue.Position, w.row.Key, w.row.Priority, w.row.Queue.Position)
			}
		}
	}
	l.reservationsCommitted(now)
	for _, e := range l.placing {
		l.placedAsAsked(e)
	}
	l.admissions, l.placing = l.admissions[:0], l.placing[:0]
}

// promoted reports whether the i-th admitted run has waited for so long that it may pass others, and
// one that may start waits before it.
func (l *ledgerWatch) promoted(i int, now time.Time) bool {
	j := l.admissions[i]
	after := time.Duration(l.queues[j.row.Queue.No].row.PromoteAfterMS) * time.Millisecond
	if after == 0 || now.Sub(j.row.Queue.EnqueuedAt) < after {
		return false
	}
	for _, w := range l.waitingIn(j.row.Queue.No) {
		if compareJobs(w, j) < 0 && !l.blocked(w, i) {
			return true
		}
	}
	return false
}

// placedAsAsked: runs entered at the end, or at the place that their request names among those
// that wait with their priority.
func (l *ledgerWatch) placedAsAsked(e *entry) {
	first := l.jobs[e.rows[0]]
	var waiting []*job
	for _, j := range l.waitingIn(first.row.Queue.No) {
		if j.row.Priority == first.row.Priority && j.behind == first.behind {
			waiting = append(waiting, j)
		}
	}
	want := len(waiting) - len(e.rows)
	switch {
	case !e.placed:
		for _, j := range l.jobOrder {
			for _, key := range e.rows {
				if own := l.jobs[key]; j.row.Queue.No == own.row.Queue.No && !slices.Contains(e.rows, j.row.Key) && j.position >= own.position {
					l.violation("the job %.12s entered at position %d, before %.12s at %d", key, own.position, j.row.Key, j.position)
				}
			}
		}
		return
	case l.queues[first.row.Queue.No].row.Fair == "key" && (want == 0 || e.Position != nil && want < int(*e.Position)):
		return // behind all others, the runs have their turns
	case e.Next:
		want = 0
	case e.Position != nil:
		want = min(want, int(*e.Position)-1)
	}
	l.coverage.situations[jobPlaced].Add(1)
	for i, key := range e.rows {
		if at := slices.IndexFunc(waiting, func(j *job) bool { return j.row.Key == key }); at != want+i {
			l.violation("run %d of request %s is number %d of %d that wait, and asked for %d", i, e.RequestID, at+1, len(waiting), want+i+1)
		}
	}
}

// jobCalled checks a call of the executor for a run of a queue.
func (l *ledgerWatch) jobCalled(at time.Duration, by string, call *launcher.Call, run *schedule.Run) {
	j := l.jobs[call.Key]
	if p := placeOf(run); p == placeDelayed || p == placeWaiting || p == placeChained {
		l.violation("the executor was called for the job %.12s, which is %s", call.Key, run.Queue.State)
	}
	if by != j.admitter {
		l.coverage.situations[jobOfAnother].Add(1)
	}
	if early := j.startAt.Sub(l.began.Add(at)); early > 0 {
		l.violation("the executor was called for the job %.12s, %s before its start", call.Key, early)
	}
	l.executor.mu.Lock()
	defer l.executor.mu.Unlock()
	if wk := l.executor.works[call.Key]; wk != nil {
		l.coverage.situations[jobSentAgain].Add(1)
		if l.profile.plain && !l.profile.incidents && !wk.unknown {
			l.violation("the executor was called again for the job %.12s, though it has answered", call.Key)
		}
		return
	}
	// A key that may have been sent is sent again also during a pause.
	first, q := l.executor.grants[call.Key] == j.admissions, l.queues[j.row.Queue.No]
	if late := at - q.quiet; first && q.quiet > 0 && q.pausedAt(l.began.Add(at)) && late > time.Second+5*time.Millisecond {
		l.violation("the executor was called for the job %.12s, %s after the pause of its queue was answered", call.Key, late)
	}
	n, limit := 1, j.limit
	for _, other := range l.jobOrder {
		if wk := l.executor.works[other.row.Key]; wk != nil && other != j && other.row.Queue.No == j.row.Queue.No && !wk.refused && !wk.ended && at < wk.ends && !l.unknownEnd(other) {
			n, limit = n+1, max(limit, other.limit)
		}
	}
	if n > limit {
		l.violation("the executor has %d runs of %s, of which at most %d may be in flight", n, l.queues[j.row.Queue.No].row.QueueID, limit)
	}
}

// unknownEnd: the ledger counts a run as ended without knowing that it was.
func (l *ledgerWatch) unknownEnd(j *job) bool {
	return placeOf(&j.row) == placeEnded && (l.givenUp(j.history) || j.row.Status == schedule.StatusCancelled)
}

// admittedBy notes which process admitted a run.
func (l *ledgerWatch) admittedBy(key schedule.Key, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[key].admitter = name
}

// cancelCarried: where nothing fails, the executor hears of each cancel.
func (w *world) cancelCarried(j *job) {
	wk, p := w.executor.works[j.row.Key], &w.profile
	if j.row.Queue.Worker == "" && p.plain && !p.incidents && p.executorCancels && wk != nil && !wk.refused && j.row.Status == schedule.StatusCancelled && !wk.cancel && wk.ends > j.completed {
		w.violation("the job %.12s ended CANCELLED at +%s, and the executor did not hear of it", j.row.Key, j.completed)
	}
}
