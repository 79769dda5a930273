package sim

import (
	"slices"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// ledgerWatch checks every committed write of the ledger, and remembers what the checker
// needs. It is called under the store's lock.
type ledgerWatch struct {
	*world
	queueWatch
	resultWatch
	inboxWatch
	mu        sync.Mutex
	rows      map[schedule.Key]*history
	order     []*history
	lives     map[string]*life
	ranges    map[string][]schedule.Event
	timedOut  map[string]bool // keys whose cancel was not confirmed in time
	leader    map[int]schedule.Term
	epoch     int64
	hostOf    map[string]int // by holder
	asked     *wish
	grants    map[schedule.GrantRef]*grantLife
	named     map[revisionID]string // the grant of a revision
	backfills map[string]*backfillLife
	feeds     map[schedule.Key]*backfillLife // by the key of a run
	rules     map[revisionID]rule
	reigns    map[int64]*reign // by epoch
	endings   []ending
	hands     map[schedule.Key]handRetry // retries that users asked for, by their key
	touched   map[schedule.Key]bool      // runs that users asked to run again
	coalesced coalesceWatch
	takeovers int
	slots     int
}

// history is one row of the ledger with all its writes.
type history struct {
	row       schedule.Run // as it is, or was last
	gone      bool
	claimed   time.Duration // the first claim, in the world; 0 = none
	completed time.Duration
	planned   time.Duration
	next      int       // automatic retries
	startBy   time.Time // an automatic retry of a slot: the end of its catch-up window
	entered   time.Time // fire_at when it entered its queue, which may put it off
}

func newLedgerWatch(w *world) *ledgerWatch {
	return &ledgerWatch{
		world: w, rows: make(map[schedule.Key]*history), lives: make(map[string]*life), ranges: make(map[string][]schedule.Event),
		timedOut: make(map[string]bool), leader: make(map[int]schedule.Term), hostOf: make(map[string]int),
		grants: make(map[schedule.GrantRef]*grantLife), named: make(map[revisionID]string),
		backfills: make(map[string]*backfillLife), feeds: make(map[schedule.Key]*backfillLife), rules: make(map[revisionID]rule),
		reigns: make(map[int64]*reign), hands: make(map[schedule.Key]handRetry), touched: make(map[schedule.Key]bool),
		queueWatch: newQueueWatch(), inboxWatch: newInboxWatch(), resultWatch: resultWatch{results: make(map[schedule.Key]schedule.RunResult)},
	}
}

// knows remembers which process leads under a name.
func (l *ledgerWatch) knows(holder string, host int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hostOf[holder] = host
}

// leading is the host of the newest leader; -1 = none.
func (l *ledgerWatch) leading() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, term := range l.leader {
		if term.Epoch == l.epoch {
			return l.hostOf[term.Holder]
		}
	}
	return -1
}

// wish is the pending request of a user; nil: none.
func (l *ledgerWatch) wish(a *wish) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = a
}

// takeover: epochs only ever grow.
func (l *ledgerWatch) takeover(term schedule.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takeovers++
	l.log.say(l.elapsed(), "w%d leads shard %d in epoch %d", l.hostOf[term.Holder], term.Shard, term.Epoch)
	if term.Epoch <= l.epoch {
		l.violation("a takeover got epoch %d after %d was given out", term.Epoch, l.epoch)
	}
	l.leader[term.Shard], l.epoch = term, max(l.epoch, term.Epoch)
	l.reigns[term.Epoch] = &reign{shard: term.Shard, began: time.Now(), renewed: time.Now()}
}

// fence: nothing is written by a leader after the next one has begun.
func (l *ledgerWatch) fence(term *schedule.Term, what string) {
	if now := l.leader[0]; term != nil {
		if now = l.leader[term.Shard]; now.Epoch != term.Epoch || now.Holder != term.Holder {
			l.violation("%s written in epoch %d while epoch %d leads", what, term.Epoch, now.Epoch)
		}
	}
}

// guarded: the overlap verdict must never need the unique index.
func (l *ledgerWatch) guarded(r schedule.Run) {
	l.violation("two exclusive runs of %s would have been in flight: %s run_at %s", r.OverlapKey, r.ScheduleID, l.at(r.RunAt))
}

// run checks one write of a row.
func (l *ledgerWatch) run(term *schedule.Term, before, after *schedule.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.elapsed()
	l.coalescing(before, after)
	switch {
	case before != nil && before.Queue.No == 0 && after != nil && after.Queue.No != 0:
		l.fence(term, "an entry into a queue")
		l.ofShard(term, before)
		l.slotEntered(at, term, before, after)
	case before != nil && before.Queue.No != 0 || after != nil && after.Queue.No != 0:
		l.ofQueue(term, before, after)
	case before == nil:
		l.fence(term, "a new row")
		l.inserted(at, after)
	case after == nil:
		l.rows[before.Key].gone = true
		if before.Status != schedule.StatusPlanned || !before.Trigger.FromSpec() && !l.takenBack(before) || term != nil {
			l.violation("the row of %s %s run_at %s was deleted while %s", before.Trigger, before.ScheduleID, l.at(before.RunAt), before.Status)
		}
	default:
		l.fence(term, "a row")
		l.ofShard(term, before)
		l.moved(at, before, after)
	}
}

// ofShard: the fence of a shard says nothing about the runs of another one. A planned run
// belongs to the planner of its schedule, whose overlap key may have changed since.
func (l *ledgerWatch) ofShard(term *schedule.Term, r *schedule.Run) {
	if term == nil || r.Status == schedule.StatusPlanned {
		return
	}
	first, last := term.Buckets()
	if bucket := schedule.Bucket(r.OverlapKey); bucket < first || bucket > last {
		l.violation("a run of bucket %d was written in a term of shard %d: %s run_at %s", bucket, term.Shard, r.ScheduleID, l.at(r.RunAt))
	}
}

func (l *ledgerWatch) inserted(at time.Duration, r *schedule.Run) {
	if r.Trigger == schedule.TriggerBackfill {
		l.insertedByBackfill(r)
	}
	h := &history{row: *r, planned: at}
	l.rows[r.Key] = h // a plan that was dropped may come again
	l.order = append(l.order, h)
	l.log.say(at, "row %06x %s %s run_at %s fire_at %s", idOf(r.Key)&0xffffff, r.ScheduleID, r.Trigger, l.at(r.RunAt), l.at(r.FireAt))
	if r.Status != schedule.StatusPlanned {
		l.violation("a row was born %s", r.Status)
	}
	l.attempted(h)
	if r.Trigger.FromSpec() && r.Key != key(r.ScheduleID, r.RunAt) {
		l.violation("the slot of %s run_at %s has another key than its own", r.ScheduleID, l.at(r.RunAt))
	}
}

// moved: forward only, with a reason that is true at this moment.
func (l *ledgerWatch) moved(at time.Duration, before, after *schedule.Run) {
	h := l.rows[after.Key]
	h.row = *after
	if before.Status != after.Status {
		l.log.say(at, "row %06x %s run_at %s: %s -> %s(%s)", idOf(after.Key)&0xffffff, after.ScheduleID, l.at(after.RunAt), before.Status, after.Status, after.Reason)
	}
	same := before.Status == after.Status && (!ended(before.Status) || l.revived(before, after))
	switch {
	case !same && !slices.Contains(follows[before.Status], after.Status):
		l.violation("%s run_at %s went from %s to %s", after.ScheduleID, l.at(after.RunAt), before.Status, after.Status)
	case after.Epoch < before.Epoch:
		l.violation("%s run_at %s went from epoch %d to %d", after.ScheduleID, l.at(after.RunAt), before.Epoch, after.Epoch)
	case after.Deliveries < before.Deliveries-1, // a call that was not made is taken back
		!after.RunAt.Equal(before.RunAt), after.Revision != before.Revision:
		l.violation("%s run_at %s: what never changes has changed", after.ScheduleID, l.at(after.RunAt))
	}
	if before.Status == schedule.StatusPlanned && after.Status == schedule.StatusLaunching {
		h.claimed = at
		l.claimed(after)
	}
	if ended(after.Status) && before.Status != after.Status {
		h.completed = at
		l.endings = append(l.endings, ending{*before, *after})
	}
}

// ending is a row that the current transaction has ended.
type ending struct{ before, after schedule.Run }

// commit checks the reasons of a transaction by the state after it: a slot may be
// skipped for one that the same transaction claims.
func (l *ledgerWatch) commit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.elapsed()
	for i := range l.endings {
		if l.jobs[l.endings[i].after.Key] != nil {
			l.jobEndedFor(&l.endings[i].before, &l.endings[i].after)
			l.keptRow(&l.endings[i].after)
		} else {
			l.reasoned(at, &l.endings[i].before, &l.endings[i].after)
		}
		l.followed(at, &l.endings[i].after)
	}
	l.eventsCommitted(at)
	l.endings = l.endings[:0]
	l.coalescesCommitted(at)
	l.jobsCommitted(at)
	l.groupsCommitted()
	l.bounded()
}

// follows are the statuses that may come after each.
var follows = map[schedule.Status][]schedule.Status{
	"PLANNED":   {"LAUNCHING", "SKIPPED", "CANCELLED", "FAILED"},
	"LAUNCHING": {"ENQUEUED", "STARTED", "SUCCESS", "FAILED", "SKIPPED", "CANCELLED"},
	"ENQUEUED":  {"STARTED", "SUCCESS", "FAILED", "SKIPPED", "CANCELLED"},
	"STARTED":   {"SUCCESS", "FAILED", "SKIPPED", "CANCELLED"},
}

func ended(s schedule.Status) bool {
	return s == "SUCCESS" || s == "FAILED" || s == "SKIPPED" || s == "CANCELLED"
}

func flying(s schedule.Status) bool { return s == "LAUNCHING" || s == "ENQUEUED" || s == "STARTED" }

// claimed: an exclusive run is in flight alone. A run with the policy allow that was
// claimed in the same transaction was not in flight at the verdict.
func (l *ledgerWatch) claimed(r *schedule.Run) {
	if !r.Exclusive {
		return
	}
	l.consumersFirst(r)
	if other := l.related(r); other != nil && (other.Exclusive || !since(other).Equal(since(r))) {
		l.violation("%s run_at %s was claimed while %s run_at %s of %s was %s", r.ScheduleID, l.at(r.RunAt), other.ScheduleID, l.at(other.RunAt), r.OverlapKey, other.Status)
	}
}

// since is when a run was claimed or has entered its queue.
func since(r *schedule.Run) time.Time {
	if r.Queue.No != 0 {
		return r.Queue.EnqueuedAt
	}
	return r.ClaimedAt
}

// related is another run in flight under the run's overlap key.
func (l *ledgerWatch) related(r *schedule.Run) *schedule.Run {
	for _, h := range l.order {
		if o := &h.row; o.OverlapKey == r.OverlapKey && o.Key != r.Key && !h.gone && flying(o.Status) {
			return o
		}
	}
	return nil
}

// reasoned: the reason of a row's end is true.
func (l *ledgerWatch) reasoned(at time.Duration, before, r *schedule.Run) {
	life := l.lives[r.ScheduleID]
	now := l.began.Add(at)
	so := true
	switch r.Reason {
	case schedule.ReasonOverlap:
		so = before.Status == schedule.StatusPlanned && l.related(r) != nil && !l.automatic(r)
	case schedule.ReasonPaused:
		so = (r.Trigger.FromSpec() || r.Trigger == schedule.TriggerEvent) && (life.row.Pause.Paused || before.Status == schedule.StatusLaunching && life.paused) // refused then, settled later
	case schedule.ReasonDeleted:
		so = !life.row.DeletedAt.IsZero() || before.Status == schedule.StatusLaunching && life.deleted
	case schedule.ReasonMissed:
		if startBy := l.rows[r.Key].startBy; l.automatic(r) {
			l.coverage.situations[retryMissed].Add(1)
			so = !startBy.IsZero() && (now.After(startBy) || r.FireAt.After(startBy))
			break
		}
		so = r.Trigger.FromSpec() && now.Sub(r.RunAt) > l.profile.grace && now.Sub(before.FireAt) > l.profile.grace
	case schedule.ReasonCoalesced:
		if so = l.newer(r); coalesces(r) {
			so = l.hasHeir(before, r, now)
		}
	case schedule.ReasonQueueFull:
		so = l.waiting(r) >= int(r.MaxQueued) && !l.automatic(r)
	case schedule.ReasonGrantRevoked, schedule.ReasonGrantExpired, schedule.ReasonGrantDenied:
		so = l.ungranted(now, r)
	case schedule.ReasonQueueClosed:
		l.coverage.situations[slotRefusedByQueue].Add(1)
		so = before.Status == schedule.StatusPlanned && l.queueNamed(life.queueOf[r.Revision]).row.Closed
	case schedule.ReasonNone:
		so = r.Status == schedule.StatusSuccess
	case schedule.ReasonDeadline:
		l.coverage.situations[runOverdue].Add(1)
		so = flying(before.Status) && l.overdue(before, now)
	case schedule.ReasonTimeout, schedule.ReasonLost, schedule.ReasonLaunchUnavailable, schedule.ReasonReplaced, schedule.ReasonSnoozed, schedule.ReasonInterrupted:
		so = flying(before.Status)
	}
	if r.Status == schedule.StatusSkipped && r.Reason != schedule.ReasonSnoozed {
		so = so && (before.Status == schedule.StatusPlanned || before.Status == schedule.StatusLaunching)
	}
	if early := r.FireAt.Sub(now); r.Status == schedule.StatusFailed && early > 0 {
		l.violation("%s run_at %s ended %s(%s) %s before it was due", r.ScheduleID, l.at(r.RunAt), r.Status, r.Reason, early)
	}
	if !so {
		l.violation("%s run_at %s ended %s(%s), which is not so", r.ScheduleID, l.at(r.RunAt), r.Status, r.Reason)
	}
}

// newer: a newer slot replaces this one.
func (l *ledgerWatch) newer(r *schedule.Run) bool {
	return slices.ContainsFunc(l.order, func(h *history) bool {
		kin := h.row.OverlapKey == r.OverlapKey || h.row.ScheduleID == r.ScheduleID
		return kin && (h.row.RunAt.After(r.RunAt) || h.row.RunAt.Equal(r.RunAt) && h.row.Key != r.Key)
	})
}

func (l *ledgerWatch) waiting(r *schedule.Run) (n int) {
	for _, h := range l.order {
		if h.row.OverlapKey == r.OverlapKey && h.row.Status == schedule.StatusPlanned && !h.row.WaitingSince.IsZero() && h.row.Key != r.Key && !l.automatic(&h.row) {
			n++
		}
	}
	return n
}

// event remembers the ranges of slots that will have no rows.
func (l *ledgerWatch) event(e schedule.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.say(l.elapsed(), "event of %s: %s %s %s..%s (%d) revision %d %s", e.ScheduleID, e.Kind, e.Reason, l.at(e.From), l.at(e.To), e.Count, e.Revision, e.Note)
	switch e.Kind {
	case schedule.EventMissed, schedule.EventCoalesced, schedule.EventBacklogClosed:
		l.ranges[e.ScheduleID] = append(l.ranges[e.ScheduleID], e)
	case schedule.EventCancelTimedOut:
		l.timedOut[e.Note] = true
	case schedule.EventPlanFailed:
		l.violation("schedule %s could not be planned: %s", e.ScheduleID, e.Note)
	}
}

// someRun is a run that a user might want to cancel.
func (l *ledgerWatch) someRun(scheduleID string, d dice) (schedule.Key, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []schedule.Key
	for _, h := range l.order {
		if h.row.ScheduleID == scheduleID && !h.gone && !ended(h.row.Status) {
			keys = append(keys, h.row.Key)
		}
	}
	if len(keys) == 0 {
		return schedule.Key{}, false
	}
	return keys[d.below(len(keys))], true
}

// at is an instant as seconds of the world.
func (w *world) at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return "+" + t.Sub(w.began).String()
}
