package sim

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// The checker's own rules of dispatch queues: nothing here may use package ledger, or the
// methods of a queue or of a run.

// queueWatch is what the checker remembers of dispatch queues.
type queueWatch struct {
	queues       map[int32]*queueLife
	jobs         map[schedule.Key]*job // their histories are in rows, and not in order
	jobOrder     []*job
	entries      []*entry                  // of users
	entering     *entry                    // the pending one
	update       *registrar.UpdateRunInput // likewise
	budgets      map[schedule.Key]*uint32  // max_attempts that a request names, by the key of its run
	retryCancels map[schedule.Key]bool     // retries whose end was requested with that of the run before
	admissions   []*job                    // of the current transaction
	placing      []*entry                  // likewise
	many         *manyCancel               // the pending one of a user
	limitWatch
	groupWatch
	reservationWatch
	uniqueWatch
	pullWatch
}

func newQueueWatch() queueWatch {
	return queueWatch{
		queues: make(map[int32]*queueLife), jobs: make(map[schedule.Key]*job), budgets: make(map[schedule.Key]*uint32), retryCancels: make(map[schedule.Key]bool), limitWatch: newLimitWatch(), groupWatch: newGroupWatch(), reservationWatch: newReservationWatch(), uniqueWatch: uniqueWatch{keys: make(map[uniqueName]*keyHolder)},
	}
}

// job is a run of a queue.
type job struct {
	*history
	limit      int            // max_in_flight of its queue at its last admission
	admissions int            // how often it was admitted
	admitter   string         // the process of the last one
	startAt    time.Time      // of the last one: its call is not earlier
	position   int64          // the last one; history has none
	fairOrder  int64          // likewise
	uneven     bool           // in a fair queue it may wait for more than its turn
	turns      map[string]int // starts of other keys since it waits, or since the last start of its own
	cancelled  bool           // a user has asked for its end
	awaited    bool           // its row is kept, whatever its queue says
	follows    bool           // it entered at the end of a group
	counted    bool           // it has ended without a row
	slot       bool           // of a schedule, or a retry of such a run
	behind     bool           // catch-up and backfill, and their automatic retries
	hook       told           // when it ended
	mayWait    time.Duration
	letGo      time.Duration // when a chained one began to wait
}

// queueLife is a queue as it is now.
type queueLife struct {
	row   schedule.Queue
	quiet time.Duration // since when its pause is answered; 0: it is not
}

// pausedAt reports whether the queue is paused for every clock: that of a process may be late,
// none is early.
func (q *queueLife) pausedAt(now time.Time) bool {
	p := &q.row.Pause
	return p.Paused && (p.Until.IsZero() || p.Until.After(now))
}

// queue sees every write of a queue.
func (l *ledgerWatch) queue(before, after *schedule.Queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[after.No]
	if q == nil {
		q = &queueLife{}
		l.queues[after.No] = q
	}
	q.row, q.quiet = *after, 0
	if before != nil && before.Revision != after.Revision {
		l.unevenQueue(after.No)
	}
	if after.Pause.Paused && len(l.waitingIn(after.No)) > 0 {
		l.coverage.situations[queuePaused].Add(1)
	}
	l.log.say(l.elapsed(), "queue %s: max_in_flight %d, paused %t until %s, closed %t", after.QueueID, after.MaxInFlight, after.Pause.Paused, l.at(after.Pause.Until), after.Closed)
}

// queuePauseAnswered: from now on the user may rely on a pause.
func (l *ledgerWatch) queuePauseAnswered(id string, at time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.queues {
		if q.row.QueueID == id {
			q.quiet = at
		}
	}
}

// ofQueue checks one write of a run of a queue.
func (l *ledgerWatch) ofQueue(term *schedule.Term, before, after *schedule.Run) {
	at := l.elapsed()
	switch {
	case term != nil && (before == nil || after == nil || !l.replacedBy(before, after)):
		l.violation("a leader wrote a run of a queue: %+v", cmp.Or(after, before))
	case after == nil:
		l.jobRemoved(before)
	case before == nil:
		l.jobEntered(at, after)
	default:
		l.jobMoved(at, before, after)
	}
}

// jobEntered: a new row is that of the pending request, or the retry of one that has failed.
func (l *ledgerWatch) jobEntered(at time.Duration, r *schedule.Run) {
	j := &job{history: &history{row: *r, planned: at}, position: r.Queue.Position, fairOrder: r.Queue.FairOrder, mayWait: mayWait(r)}
	j.uneven = r.Trigger != schedule.TriggerJob || l.entering != nil && l.entering.placed
	q := l.queues[r.Queue.No]
	l.rows[r.Key], l.jobs[r.Key] = j.history, j
	l.jobOrder = append(l.jobOrder, j)
	if r.Epoch != 0 { // of a slot: it is in flight for its overlap group
		j.slot, j.claimed = true, at
		l.order = append(l.order, j.history)
	}
	l.log.say(at, "job %06x of %s enters %s: %s, priority %d, position %d, fire_at %s", idOf(r.Key)&0xffffff, r.ScheduleID, q.row.QueueID, r.Queue.State, r.Priority, r.Queue.Position, l.at(r.FireAt))
	p := placeOf(r)
	if p != placeDelayed && p != placeWaiting && (p != placeChained || r.Queue.GroupNo == 0) || r.Status != schedule.StatusEnqueued || r.Deliveries != 0 {
		l.violation("a job was born %s, %s", r.Status, r.Queue.State)
	}
	if followsGroup(r) {
		l.followUp(j)
	} else if r.Trigger == schedule.TriggerJob {
		l.requestedJob(at, q, r)
	} else {
		l.retriedJob(r)
	}
	l.attempted(j.history)
	j.follows = followsGroup(r) // its input can be changed later
	l.bornMember(r)
	l.mayCancel(j)
}

// retriedJob: the retry of a run waits at its place.
func (l *ledgerWatch) retriedJob(r *schedule.Run) {
	of := l.jobs[r.RetryOf]
	if of == nil || of.row.Queue.No != r.Queue.No || of.position != r.Queue.Position || of.row.Priority != r.Priority || of.row.Queue.Limits != r.Queue.Limits || of.row.Webhook != r.Webhook || of.row.Epoch != r.Epoch ||
		of.row.Queue.GroupNo != r.Queue.GroupNo || !l.keptTurn(of, r) || of.row.Queue.GroupSeq != r.Queue.GroupSeq {
		l.violation("the retry of the job %.12s is not at its place, or has other limits or another webhook", r.RetryOf)
	}
	if of != nil {
		l.jobs[r.Key].behind = of.behind
	}
	l.handedOver(r)
	l.coverage.situations[jobRetried].Add(1)
}

// requestedJob: a run of the pending request is as it was requested.
func (l *ledgerWatch) requestedJob(at time.Duration, q *queueLife, r *schedule.Run) {
	e := l.entering
	if e == nil || q.row.QueueID != e.QueueID || len(e.rows) == len(e.Runs) {
		l.violation("a job entered %s, and nobody asked", q.row.QueueID)
		return
	}
	n := len(e.rows)
	in := &e.Runs[n]
	if n > 0 && e.at != at {
		l.violation("the runs of request %s entered one by one", e.RequestID)
	}
	if q.row.Closed {
		l.violation("a job entered %s, which is closed", e.QueueID)
	}
	e.rows, e.at, l.budgets[r.Key] = append(e.rows, r.Key), at, in.MaxAttempts
	of := l.lives[r.ScheduleID]
	delay := r.FireAt.Sub(r.CreatedAt.Truncate(time.Millisecond))
	if r.Priority != *in.Priority || in.Input != nil && !bytes.Equal(r.Input, in.Input) || r.ScheduleID != in.ScheduleID || delay != e.delays[n] || (placeOf(r) == placeDelayed) != (delay > 0) && placeOf(r) != placeChained || r.Webhook != cmp.Or(in.Webhook, of.webhookOf[r.Revision]) {
		l.violation("run %d of request %s became %+v", n, e.RequestID, r)
	}
	if want := cmp.Or(in.FairKey, r.UserID); r.Queue.FairKey != in.FairKey && r.Queue.FairKey != want || r.Queue.FairOrder > 0 && r.Queue.FairKey != want {
		l.violation("run %d of request %s has the fair key %q, not %q", n, e.RequestID, r.Queue.FairKey, want)
	}
	if want := merged(q.row.Limits, of.limitsOf[r.Revision], in.Limits); string(r.Queue.Limits) != want {
		l.violation("run %d of request %s uses %q, not %q", n, e.RequestID, r.Queue.Limits, want)
	}
	l.entersFor(r, in.ExpiresMS, of.expiresOf[r.Revision], q.row.ExpiresMS)
	if delay > 0 {
		l.coverage.situations[jobDelayed].Add(1)
	}
	l.awaits(r, e.Waits)
	l.tookKey(r, in.Unique)
	if n == len(e.Runs)-1 {
		l.placing = append(l.placing, e)
	}
}

// jobSteps are the places that may come after each.
var jobSteps = map[place][]place{
	placeDelayed:     {placeDelayed, placeWaiting, placeEnded},
	placeChained:     {placeChained, placeDelayed, placeWaiting, placeEnded},
	placeWaiting:     {placeDelayed, placeWaiting, placeDispatching, placeRunning, placeEnded},
	placeDispatching: {placeDelayed, placeWaiting, placeDispatching, placeRunning, placeEnded},
	placeRunning:     {placeRunning, placeEnded},
}

// jobMoved: forward only, except a run that the executor has not taken.
func (l *ledgerWatch) jobMoved(at time.Duration, before, after *schedule.Run) {
	j := l.jobs[after.Key]
	j.row = *after
	from, to, id := placeOf(before), placeOf(after), idOf(after.Key)&0xffffff
	l.deadlineKept(before, after)
	if from != to {
		l.log.say(at, "job %06x: %s %s -> %s %s(%s), %d deliveries", id, before.Status, before.Queue.State, after.Status, after.Queue.State, after.Reason, after.Deliveries)
	}
	if from == placeEnded {
		if !l.revived(before, after) {
			l.violation("the job %06x has ended %s(%s) and was changed: %+v", id, before.Status, before.Reason, after)
		}
		return
	}
	if to != placeEnded {
		j.position, j.fairOrder = after.Queue.Position, after.Queue.FairOrder
	}
	if !before.CancelRequestedAt.IsZero() && to != placeEnded && !after.CancelRequestedAt.Equal(before.CancelRequestedAt) {
		l.violation("the job %06x: its cancel was requested at %s, and now at %s", id, l.at(before.CancelRequestedAt), l.at(after.CancelRequestedAt))
	}
	switch {
	case !slices.Contains(jobSteps[from], to):
		l.violation("the job %06x went from %s %s to %s %s", id, before.Status, before.Queue.State, after.Status, after.Queue.State)
	case after.Attempt != before.Attempt, after.MaxAttempts != before.MaxAttempts, after.Queue.No != before.Queue.No, after.Revision != before.Revision,
		after.Deliveries < before.Deliveries-1, after.RetryOf != before.RetryOf:
		l.violation("the job %06x: what never changes has changed: %+v, and was %+v", id, after, before)
	case to != placeEnded && after.Queue.Position != before.Queue.Position && (l.entering == nil || !l.entering.placed || from.inFlight()):
		l.violation("the job %06x has moved from position %d to %d", id, before.Queue.Position, after.Queue.Position)
	}
	if from == placeWaiting && (to == placeEnded || to == placeDelayed || after.Priority != before.Priority) {
		l.unevenKey(before)
	}
	switch {
	case to == placeEnded:
		j.completed, j.hook = at, l.webhookNow(after)
		l.lostTruly(at, after)
		l.endings = append(l.endings, ending{*before, *after})
	case !from.inFlight() && to.inFlight():
		l.jobFetched(j, to)
		l.startsInTime(before, l.began.Add(at))
		l.jobAdmitted(at, j, before)
	case from.inFlight() && !to.inFlight():
		j.uneven = true
		l.jobPutBack(j, before)
	case !from.inFlight() && !to.inFlight():
		l.jobWaits(at, j, before)
	case !bytes.Equal(before.Input, after.Input) || before.Priority != after.Priority || before.Queue.Limits != after.Queue.Limits:
		l.violation("the job %06x was changed in flight: %+v", id, after)
	}
}

// jobPutBack: only a run that the executor has not taken waits again, at its place, and this
// counts for nothing.
func (l *ledgerWatch) jobPutBack(j *job, before *schedule.Run) {
	l.coverage.situations[jobPutBack].Add(1)
	l.executor.mu.Lock()
	wk := l.executor.works[j.row.Key]
	l.executor.mu.Unlock()
	if wk != nil || j.row.Deliveries != 0 || j.row.Priority != before.Priority || !bytes.Equal(j.row.Input, before.Input) || j.row.Queue.Limits != before.Queue.Limits || j.row.Queue.FairOrder != before.Queue.FairOrder {
		l.violation("the job %.12s waits again after %d deliveries, and the executor knows it as %+v", j.row.Key, j.row.Deliveries, wk)
	}
}

// jobWaits: while it waits, a run changes because its delay is over, or as its user asked.
func (l *ledgerWatch) jobWaits(at time.Duration, j *job, before *schedule.Run) {
	r, u := &j.row, l.update
	if placeOf(before) == placeChained && placeOf(r) != placeChained {
		l.releasedMember(j)
		j.letGo = at
		l.waitsAsLong(j, l.began.Add(at))
	}
	if placeOf(before) == placeDelayed && placeOf(r) == placeWaiting && r.Queue.FairOrder == 0 && l.queues[r.Queue.No].row.Fair == "key" {
		l.violation("the job %.12s begins to wait in a fair queue, and has no turn", r.Key)
	}
	now := l.began.Add(at)
	// A process with a late clock lets a chained run wait for its start, which has come.
	released := placeOf(r) == placeWaiting && !r.FireAt.After(now) || placeOf(r) == placeDelayed && r.FireAt.After(now.Add(-l.profile.maxSkew-time.Millisecond))
	same := r.Priority == before.Priority && r.Queue.Limits == before.Queue.Limits && bytes.Equal(r.Input, before.Input) && r.FireAt.Equal(before.FireAt)
	switch {
	case l.replacedJob(j, before):
	case same && (placeOf(r) == placeOf(before) || placeOf(before) == placeChained && released || placeOf(before) == placeDelayed && !r.FireAt.After(now)):
	case u == nil || u.Key != r.Key:
		l.violation("the job %.12s was changed and nobody asked: %+v, and was %+v", r.Key, r, before)
	case j.admissions > 0 && !bytes.Equal(r.Input, before.Input):
		l.violation("the job %.12s has another input after its first admission", r.Key)
	case j.admissions > 0 && r.Queue.Limits != before.Queue.Limits:
		l.violation("the job %.12s uses other limits after its first admission", r.Key)
	case u.Input != nil && !bytes.Equal(r.Input, u.Input), u.Limits == nil && r.Queue.Limits != before.Queue.Limits, u.Priority != nil && r.Priority != *u.Priority:
		l.violation("the update of the job %.12s made something else of it: %+v", r.Key, r)
	default:
		l.coverage.situations[jobUpdated].Add(1)
	}
}

// jobEndedFor: the reason of an end is true.
func (l *ledgerWatch) jobEndedFor(before, r *schedule.Run) {
	j, from := l.jobs[r.Key], placeOf(before)
	so := false
	switch r.Reason {
	case schedule.ReasonNone:
		so = r.Status == schedule.StatusSuccess && from.inFlight()
	case schedule.ReasonCancelled:
		if so = r.Status == schedule.StatusCancelled && (j.cancelled || l.retryCancels[r.Key] || l.cancelledGroup(r)); so {
			where := jobCancelled
			if from.inFlight() {
				where = jobCancelledInFlight
			}
			l.coverage.situations[where].Add(1)
		}
	case schedule.ReasonTimeout, schedule.ReasonLost, schedule.ReasonLaunchUnavailable, schedule.ReasonWorkflowFailed, schedule.ReasonLaunchRefused, schedule.ReasonInterrupted:
		so = r.Status == schedule.StatusFailed && from.inFlight()
	}
	if r.Reason == schedule.ReasonDeadline {
		so = r.Status == schedule.StatusFailed && from.inFlight() && l.overdue(before, time.Now())
		l.coverage.situations[jobOverdue].Add(1)
	}
	if r.Reason == schedule.ReasonExpired {
		so = l.expires(j, before, r)
	}
	if r.Reason == schedule.ReasonPredecessorFailed {
		so = r.Status == schedule.StatusCancelled && !from.inFlight() && l.stoppedFor(j)
	}
	if r.Reason == schedule.ReasonReplaced {
		so = r.Status == schedule.StatusCancelled && j.slot && r.CancelReason == schedule.ReasonReplaced
		l.coverage.situations[slotReplaced].Add(1)
	}
	if j.slot && r.Reason == schedule.ReasonCancelled { // anybody may ask for it
		so = r.Status == schedule.StatusCancelled
	}
	if r.Reason == schedule.ReasonSnoozed {
		so = r.Status == schedule.StatusSkipped && from.inFlight()
		l.coverage.situations[jobSnoozed].Add(1)
	}
	if r.Reason == schedule.ReasonWorkflowNotFound { // only of schedules that were edited
		so = r.Status == schedule.StatusFailed && from.inFlight()
	}
	if strings.HasPrefix(string(r.Reason), "grant_") {
		so = l.ungranted(time.Now(), r)
	}
	if !so {
		l.violation("the job %.12s of %s was %s and ended %s(%s), which is not so", r.Key, r.ScheduleID, before.Queue.State, r.Status, r.Reason)
	}
}

// jobsOver checks the runs of queues at the end: each request that was answered has all its runs,
// one that was not has all or none, and the executor and the ledger agree on each.
func (w *world) jobsOver() {
	for _, e := range w.watch.entries {
		if !e.group && e.unique() {
			continue // see answeredUnique
		}
		if len(e.rows) != 0 && len(e.rows) != len(e.Runs) || e.keys != nil && !slices.Equal(e.keys, e.rows) {
			w.violation("request %s of %d runs has made %d, and %d were answered", e.RequestID, len(e.Runs), len(e.rows), len(e.keys))
		}
	}
	w.watch.ratesKept()
	w.usesOwned()
	w.groupsOver()
	for _, j := range w.watch.jobOrder {
		w.truthful(j.history)
		w.delivered(j.history)
		if wk := w.executor.works[j.row.Key]; j.row.Queue.Worker == "" && w.profile.plain && !w.profile.incidents && j.row.Reason == schedule.ReasonLost && wk.calls+w.executor.asked[j.row.Key] < 2 {
			w.violation("the job %.12s was given up as lost after one call", j.row.Key)
		}
		w.cancelCarried(j)
		if placeOf(&j.row) != placeEnded {
			w.coverage.situations[jobLeft].Add(1)
		}
		w.startsOrEnds(j)
	}
}
