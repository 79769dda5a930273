package ledger

import (
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// ShardState is what the leader of a shard keeps in memory: the planned runs that
// fire soon, the runs that wait for their overlap group, and the runs in flight. It
// can be rebuilt from the tables at any time. It does no I/O and reads no clock. It
// is not safe for concurrent use.
type ShardState struct {
	epoch     int64
	now       int64 // of the last pass
	seenUntil int64 // the durable value
	loaded    int64 // planned runs that fire up to here are loaded
	stale     bool  // it must be rebuilt

	runs      map[schedule.Key]*run
	schedules map[string]*scheduleRuns
	groups    map[string]*group
	owners    map[string]*owner

	window window
	soon   lane // early runs, in order of fire_at
	late   map[*run]struct{}
	unread lane                // due or early, and it is not known whether they go into queues; in no order
	active map[*owner]struct{} // those with something due or early, or a freed group

	waiting   map[*group]struct{} // all groups with waiting runs, and some others
	checkedAt int64               // when these were last checked

	sends      lane              // LAUNCHING runs, in order of their next send
	cancelling map[*run]struct{} // in flight, and their cancel is requested

	entered map[int32]waitingCount // runs that wait, by queue

	replacing map[*run]struct{} // automatic retries under policy replace, until they are over

	wakes wakes // of consumers
}

// NewShardState is the state of a term before anything is loaded. seenUntil is what
// the leaders before have recorded; open is about how many runs will be loaded.
func NewShardState(epoch int64, seenUntil time.Time, open int) *ShardState {
	return &ShardState{
		epoch: epoch, now: math.MinInt64, seenUntil: micro(seenUntil), loaded: math.MaxInt64,
		runs: make(map[schedule.Key]*run, open), schedules: make(map[string]*scheduleRuns, open), groups: make(map[string]*group, open),
		owners: make(map[string]*owner),
		window: window{buckets: make(map[int64]*lane)}, late: make(map[*run]struct{}), active: make(map[*owner]struct{}),
		waiting: make(map[*group]struct{}), checkedAt: math.MinInt64, cancelling: make(map[*run]struct{}),
		entered: make(map[int32]waitingCount), replacing: make(map[*run]struct{}), wakes: newWakes(),
	}
}

func micro(t time.Time) int64 { return t.UnixMicro() }

// Load enters runs that were read from the tables. Known ones are not replaced: changes
// update them. entered is how many were not known.
func (s *ShardState) Load(open *Open) (entered int) {
	for i := range open.Runs {
		if r := &open.Runs[i]; s.runs[r.Key] == nil {
			s.enter(r)
			entered++
		}
	}
	for i := range open.Stopped {
		s.stop(&open.Stopped[i])
	}
	for _, w := range open.Wakes {
		s.putWake(w)
	}
	return entered
}

// LoadedUntil notes that every planned run that fires at then or before was
// loaded. SeenUntil does not pass it.
func (s *ShardState) LoadedUntil(then time.Time) { s.loaded = micro(then) }

// Planned is the number of planned runs that do not wait.
func (s *ShardState) Planned() (n int) {
	n = s.window.runs + len(s.late) + len(s.soon.runs) - s.soon.left
	for o := range s.active {
		n += len(o.due.runs) - o.due.left + len(o.entering.runs) - o.entering.left
	}
	return n
}

// Knows reports whether the state knows a run.
func (s *ShardState) Knows(key schedule.Key) bool { return s.runs[key] != nil }

// Counts are how many runs are in flight, wait for their overlap group or for the end of a
// pause, and are due and not claimed, now being the instant of the last pass.
func (s *ShardState) Counts() schedule.Gauges {
	var g schedule.Gauges
	for _, r := range s.runs {
		switch r.place {
		case placeFlight:
			g.InFlight++
		case placeWaiting:
			g.Waiting++
		case placeDue, placeLate:
			if r.isHeld(s.now) {
				g.Waiting++
			} else {
				g.Due++
			}
		}
	}
	return g
}

// All are the runs that the state knows, in no order.
func (s *ShardState) All() iter.Seq[Run] {
	return func(yield func(Run) bool) {
		for _, r := range s.runs {
			if !yield(r.outside()) {
				return
			}
		}
	}
}

// Run is a run that the state knows.
func (s *ShardState) Run(key schedule.Key) (Run, bool) {
	r := s.runs[key]
	if r == nil {
		return Run{}, false
	}
	return r.outside(), true
}

// NextFireAt is the earliest fire_at later than now of what does not wait; zero if
// there is none.
func (s *ShardState) NextFireAt(now time.Time) time.Time {
	next := s.window.next(micro(now))
	for _, r := range s.soon.inOrder(byFireAt) {
		if isEarly(r) && r.fireAt > micro(now) {
			if next == nil || r.fireAt < next.fireAt { // the window may have runs that came since
				next = r
			}
			break
		}
	}
	if next == nil {
		return time.Time{}
	}
	return time.UnixMicro(next.fireAt).UTC()
}

// Late are the planned runs that were missed: the planner decides whether they
// still fire.
func (s *ShardState) Late() (keys []schedule.Key) {
	for _, r := range s.lateInOrder() {
		keys = append(keys, r.key)
	}
	return keys
}

func (s *ShardState) lateInOrder() []*run { return slices.SortedFunc(maps.Keys(s.late), byFireAt) }

// Stale reports whether the state must be rebuilt before the next pass.
func (s *ShardState) Stale() bool { return s.stale }

// Discard marks the state as stale: the result of a commit is unknown, or the
// tables have refused a verdict.
func (s *ShardState) Discard() { s.stale = true }

// enter makes a run known.
func (s *ShardState) enter(in *Run) {
	r := &run{
		key: in.Key, runAt: micro(in.RunAt), fireAt: micro(in.FireAt), policy: in.Policy, trigger: in.Trigger, revision: in.Revision,
		automatic: in.Automatic, queued: in.Queued, priority: in.Priority, maxQueued: in.MaxQueued, exclusive: in.Exclusive, afterOthers: in.Trigger.AfterOthers(), cancelRequested: in.CancelRequested,
	}
	if !in.StartBy.IsZero() {
		r.startBy = micro(in.StartBy)
	}
	r.group, r.schedule = s.groupOf(in.OverlapKey), s.scheduleOf(in.ScheduleID)
	r.group.runs++
	if r.next = r.schedule.first; r.next != nil {
		r.next.previous = r
		if r.next.revision == r.revision {
			r.queue = r.next.queue
		}
	}
	r.schedule.first = r
	s.runs[r.key] = r
	r.seen = r.fireAt <= s.seenUntil
	if r.automatic && r.replaces() {
		s.replacing[r] = struct{}{}
	}
	switch {
	case in.Status.InFlight():
		s.toFlight(r, flight{status: in.Status, epoch: in.Epoch, nextSend: micro(in.NextSend)})
	case !in.WaitingSince.IsZero():
		s.toWaiting(r, micro(in.WaitingSince))
	default:
		s.toWindow(r)
	}
}

// forget removes a run that is over.
func (s *ShardState) forget(r *run) {
	delete(s.runs, r.key)
	s.unlink(r)
}

// unlink removes a run from its lists, its schedule and its group.
func (s *ShardState) unlink(r *run) {
	s.take(r)
	delete(s.replacing, r)
	if r.previous != nil {
		r.previous.next = r.next
	} else {
		r.schedule.first = r.next
	}
	if r.next != nil {
		r.next.previous = r.previous
	}
	if r.schedule.first == nil {
		delete(s.schedules, r.schedule.id)
	}
	s.leaveGroup(r.group)
}

// leaveGroup forgets a group that has nothing more.
func (s *ShardState) leaveGroup(g *group) {
	if g.runs--; g.runs > 0 {
		return
	}
	delete(s.groups, g.key)
	delete(s.waiting, g)
	if g.owner.groups--; g.owner.groups == 0 {
		delete(s.owners, g.owner.id)
		delete(s.active, g.owner)
	}
}

func (s *ShardState) scheduleOf(id string) *scheduleRuns {
	of := s.schedules[id]
	if of == nil {
		of = &scheduleRuns{id: id}
		s.schedules[id] = of
	}
	return of
}

func (s *ShardState) groupOf(overlapKey string) *group {
	g := s.groups[overlapKey]
	if g != nil {
		return g
	}
	id := schedule.Owner(overlapKey)
	o := s.owners[id]
	if o == nil {
		o = &owner{id: id, freed: make(map[*group]struct{})}
		s.owners[id] = o
	}
	o.groups++
	g = &group{key: overlapKey, owner: o}
	s.groups[overlapKey] = g
	return g
}

// lookedUntil returns Verdicts.SeenUntil.
func (s *ShardState) lookedUntil(now int64) time.Time {
	until := min(now, s.loaded)
	for r := range s.late {
		until = min(until, r.fireAt-1)
	}
	return time.UnixMicro(max(until, s.seenUntil)).UTC()
}

// Commit enters verdicts that are durable. What they claim is sent again after lease,
// if there is no answer by then.
func (s *ShardState) Commit(v Verdicts, lease time.Duration) {
	for _, key := range v.Claims {
		if r := s.runs[key]; r != nil {
			s.take(r)
			s.toFlight(r, flight{status: schedule.StatusLaunching, epoch: v.epoch, nextSend: v.now + lease.Microseconds(), checkedAt: v.now})
		}
	}
	for _, e := range v.Entries {
		if r := s.runs[e.Key]; r != nil {
			s.take(r)
			r.queued = true
			s.toFlight(r, flight{status: schedule.StatusEnqueued, epoch: v.epoch, checkedAt: v.now})
		}
		if n, counted := s.entered[e.Queue.No]; counted {
			n.runs++
			s.entered[e.Queue.No] = n
		}
	}
	for _, e := range v.Ends {
		if r := s.runs[e.Key]; r != nil {
			s.forget(r)
		}
	}
	for _, w := range v.Waits {
		if r := s.runs[w.Key]; r != nil {
			s.take(r)
			s.toWaiting(r, micro(v.WaitsSince(w)))
		}
	}
	for _, c := range v.Cancels {
		if r := s.runs[c.Key]; r != nil {
			s.requestCancel(r)
		}
	}
	s.seenUntil = max(s.seenUntil, micro(v.SeenUntil))
}

// Without are the verdicts without those on the overlap groups of the given runs:
// the claim transaction did not find these runs as they were, so a verdict that
// counts on them may be wrong. The next pass judges the groups again.
func (s *ShardState) Without(v Verdicts, missing []schedule.Key) Verdicts {
	doubtful := make(map[*group]bool)
	for _, key := range missing {
		if r := s.runs[key]; r != nil {
			doubtful[r.group] = true
		}
	}
	in := func(key schedule.Key) bool {
		r := s.runs[key]
		return r == nil || doubtful[r.group]
	}
	v.Claims = slices.DeleteFunc(slices.Clone(v.Claims), in)
	v.Entries = slices.DeleteFunc(slices.Clone(v.Entries), func(e Entry) bool { return in(e.Key) })
	v.Waits = slices.DeleteFunc(slices.Clone(v.Waits), func(w Wait) bool { return in(w.Key) })
	v.Ends = slices.DeleteFunc(slices.Clone(v.Ends), func(e End) bool { return in(e.Key) })
	v.Cancels = slices.DeleteFunc(slices.Clone(v.Cancels), func(c Cancel) bool { return in(c.Key) })
	return v
}
