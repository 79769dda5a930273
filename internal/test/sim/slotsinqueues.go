package sim

import (
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// The checker's own rules of schedules in queues.

// queueNamed is the queue with an id.
func (l *ledgerWatch) queueNamed(id string) *queueLife {
	for _, q := range l.queues {
		if q.row.QueueID == id {
			return q
		}
	}
	return &queueLife{}
}

// slotEntered: the leader puts a run that is due into the queue of its revision, at the end, and
// not into one that is closed. From then on it is in flight for its overlap group.
func (l *ledgerWatch) slotEntered(at time.Duration, term *schedule.Term, before, after *schedule.Run) {
	h, q := l.rows[after.Key], l.queues[after.Queue.No]
	h.row, h.claimed, h.entered = *after, at, after.FireAt
	j := &job{history: h, position: after.Queue.Position, uneven: true, slot: true, behind: after.Trigger == schedule.TriggerCatchup || after.Trigger == schedule.TriggerBackfill}
	l.jobs[after.Key], l.jobOrder = j, append(l.jobOrder, j)
	f := l.lives[after.ScheduleID]
	l.log.say(at, "row %06x %s run_at %s enters %s: priority %d, position %d", idOf(after.Key)&0xffffff, after.ScheduleID, l.at(after.RunAt), q.row.QueueID, after.Priority, after.Queue.Position)
	early, place := after.FireAt.Sub(l.began.Add(at)), placeWaiting
	if q.row.Fair == "key" {
		place = placeDelayed
	}
	switch {
	case term == nil || before.Status != schedule.StatusPlanned || after.Status != schedule.StatusEnqueued || placeOf(after) != place || after.Deliveries != before.Deliveries:
		l.violation("%s run_at %s entered a queue as %+v, and was %+v", after.ScheduleID, l.at(after.RunAt), after, before)
	case q.row.QueueID != f.queueOf[after.Revision] || q.row.Closed:
		l.violation("%s run_at %s entered %s (closed %t), its revision names %q", after.ScheduleID, l.at(after.RunAt), q.row.QueueID, q.row.Closed, f.queueOf[after.Revision])
	case early > 0:
		l.violation("%s run_at %s entered its queue %s early", after.ScheduleID, l.at(after.RunAt), early)
	case string(after.Queue.Limits) != merged(q.row.Limits, f.limitsOf[after.Revision]):
		l.violation("%s run_at %s uses %q", after.ScheduleID, l.at(after.RunAt), after.Queue.Limits)
	}
	for _, other := range l.jobOrder {
		if other != j && other.row.Queue.No == after.Queue.No && other.position >= j.position {
			l.violation("%s run_at %s entered at position %d, before %.12s at %d", after.ScheduleID, l.at(after.RunAt), j.position, other.row.Key, other.position)
		}
	}
	if after.Trigger != schedule.TriggerRetry {
		l.entersFor(after, nil, f.expiresOf[after.Revision], q.row.ExpiresMS)
	}
	policy := l.rules[revisionID{after.ScheduleID, after.Revision}].retry.MaxAttempts
	if most := before.MaxAttempts; policy == 0 && after.Trigger != schedule.TriggerRetry && after.MaxAttempts != most+l.attemptsIn(after.Queue.No)-1 || (policy > 0 || after.Trigger == schedule.TriggerRetry) && after.MaxAttempts != most {
		l.violation("%s run_at %s had %d attempts, and has %d in its queue", after.ScheduleID, l.at(after.RunAt), most, after.MaxAttempts)
	}
	l.claimed(after)
	l.slotGrouped(after)
	l.coverage.situations[slotEnteredQueue].Add(1)
}

// claimPassed: a claim leaves no run behind that is due, goes into a queue and waits for no other run,
// whatever launches are free, and launches no more than there are.
func (l *ledgerWatch) claimPassed(claim *ledger.Claim, out *ledger.Claimed) {
	v := &out.Verdicts
	if claim.State.Stale() || v.Unread || len(out.Missing)+len(out.Refused) > 0 {
		return
	}
	over := make(map[schedule.Key]bool)
	for i := range v.Entries {
		over[v.Entries[i].Key] = true
	}
	for i := range v.Ends {
		over[v.Ends[i].Key] = true
	}
	for _, key := range claim.State.Late() {
		over[key] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(v.Claims); n > claim.Pass.Limit {
		l.violation("a claim with %d free launches has launched %d runs", claim.Pass.Limit, n)
	}
	if len(v.Entries) > 0 && claim.Pass.Limit == 0 {
		l.coverage.situations[slotEnteredFull].Add(1)
	}
	for r := range claim.State.All() {
		due := r.Status == schedule.StatusPlanned && r.WaitingSince.IsZero() && !r.Exclusive && !r.Automatic && !r.FireAt.After(claim.Pass.Now)
		if f := l.lives[r.ScheduleID]; due && f != nil && f.queueOf[r.Revision] != "" && !over[r.Key] {
			l.violation("%s run_at %s is due, and a claim with %d free launches left it out of its queue", r.ScheduleID, l.at(r.RunAt), claim.Pass.Limit)
		}
	}
}

// replacedBy: of a run in a queue a leader only asks for the cancel, for a newer slot.
func (l *ledgerWatch) replacedBy(before, after *schedule.Run) bool {
	return before.CancelRequestedAt.IsZero() && !after.CancelRequestedAt.IsZero() && after.CancelReason == schedule.ReasonReplaced && placeOf(before) == placeOf(after)
}

// keptByQueue: a run of a slot is in a queue that its user has paused without an end, or waits for
// the end of such a run.
func (l *ledgerWatch) keptByQueue(h *history) bool {
	kept := func(key schedule.Key) bool {
		j := l.jobs[key]
		return j != nil && !l.jobWaitsFor(j)
	}
	if l.jobs[h.row.Key] != nil {
		return true // see jobWaitsFor
	}
	if h.row.Status != schedule.StatusPlanned {
		return false
	}
	for _, other := range l.order {
		if other.row.OverlapKey == h.row.OverlapKey && !ended(other.row.Status) && kept(other.row.Key) {
			return true
		}
	}
	return false
}
