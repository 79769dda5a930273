package ledger

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// QueueFacts is what an admission reads of a queue, under its lock and those of the limits.
type QueueFacts struct {
	Queue     *schedule.Queue
	Stall     schedule.QueueStall
	NextStart time.Time              // of the queue's rate
	InFlight  int                    // runs
	Reserved  []schedule.Reservation // waiting and granted ones, in order of arrival; also some that are over
	// Plain: no waiting run has limits, and none is promoted. The store reads the first rows in order,
	// locked, and makes the only head of them.
	Plain  bool
	Heads  []Head // of each limit set
	Oldest []Head // of each limit set and priority, where runs are promoted
	Limits map[schedule.LimitRef]*LimitNow
	// Blocked are the limit sets that a limit blocks. None of their runs was read; see HeadReads.
	Blocked map[string]Block
	// Held are the open runs of the worker that fetches, in all queues.
	Held      []schedule.HeldRun
	LastFetch time.Time // of any worker, where it explains a wait
}

// WaitingFacts is a waiting run with what permits it.
type WaitingFacts struct {
	Run        schedule.Run
	Definition *schedule.Definition // nil: it cannot be read
	Grant      *schedule.Grant      // that the definition names; nil: it does not exist
}

// Dispatch is an admitted run that may be sent.
type Dispatch struct {
	schedule.Launch
	Begun   schedule.BeginResult
	StartAt time.Time // it is sent at this instant
	Due     time.Time // of a run that a worker has fetched: when a sweep looks at it
	Aged    bool      // it has waited for promote_after_ms, and passed others
}

// LimitUse is a limit that an admitted run uses until it has left the executor.
type LimitUse struct {
	LimitNo int32
	Key     string
	UsedBy  schedule.Key
}

// LimitStart is when the next run of a limit with a rate may start.
type LimitStart struct {
	LimitNo int32
	Key     string
	Next    time.Time
}

// Dispatched is the result of an admission.
type Dispatched struct {
	Alone      bool // the admission had the queue for itself; false: another process admits, and nothing was read
	Dispatches []Dispatch
	Uses       []LimitUse            // of the dispatches; is written
	Starts     []LimitStart          // of limits with a rate; is written
	NextStart  time.Time             // of the queue's rate, is written; zero: it has not changed
	Queue      *schedule.Queue       // of the runs
	StallLevel int                   // of the queue; not 0: the run is a probe
	Stall      *schedule.StallChange // is written: no other probe for a while
	Ended      []schedule.Settlement // runs that may not be sent: no call was made
	Reserved   Reserved              // is written
	Clocks     []FairClock           // of a fair queue, by priority; is written where it is later
	Fetched    Fetched               // what a worker that fetches is told
	Block      *Block                // what keeps the others waiting; nil: nothing known
	Again      bool                  // runs are left that an admission may take at once
}

// Room is how many runs an admission can take; 0: none, and nothing more need be read.
func (f *QueueFacts) Room(req *schedule.AdmitRequest) int {
	v := f.visit(req)
	if v.Paused || v.NoWorker || v.StalledUntil.After(v.Now) || v.Rate.first(v.Now).After(v.Now.Add(startAhead)) {
		return 0
	}
	room := min(v.Free, v.MaxInFlight-v.InFlight, maxAdmitted)
	if v.OwnerCalls != nil {
		room = min(room, *v.OwnerCalls)
	}
	return max(0, room)
}

func (f *QueueFacts) visit(req *schedule.AdmitRequest) Visit {
	free := req.Free
	if f.stall().Level > 0 {
		free = min(free, 1) // a probe: whether the executor can take work again
	}
	if req.Fetch != nil {
		free = min(free, f.fetchable(req.Fetch))
	}
	v := Visit{
		Now: req.Now, Free: free, MaxInFlight: int(f.Queue.MaxInFlight), InFlight: f.InFlight + f.held(req.Now), Rate: RateOf(f.Queue.Rate, f.NextStart, req.Now), Heads: f.Heads, Limits: f.Limits, Blocked: f.Blocked,
		Paused: !f.Queue.Alive() || f.Queue.Unreadable || f.Queue.Pause.Active(req.Now), StalledUntil: f.stall().Until,
		NoWorker:     f.Queue.Pulled() && req.Fetch == nil, // a launcher never sends its runs
		PromoteAfter: time.Duration(f.Queue.PromoteAfterMS) * time.Millisecond, Oldest: f.Oldest,
		Reservations: f.Reserving(req.Now),
	}
	if req.Share != nil {
		calls := req.Share(f.Queue.UserID)
		v.OwnerCalls = &calls
	}
	return v
}

// AddPlain adds the first rows of a plain queue, in its order. room is how many were asked for.
// A run with limits may have come after the queue was found plain, by its entry or because it was
// put back: it and those behind it wait for the next visit, which reads limits.
func (f *QueueFacts) AddPlain(runs []*schedule.Run, room int) {
	if len(runs) == 0 {
		return
	}
	h := Head{More: len(runs) == room}
	for _, r := range runs {
		if r.Queue.Limits != "" {
			h.More = true
			break
		}
		h.Runs = append(h.Runs, Waiting(r))
	}
	if len(h.Runs) > 0 {
		f.Heads = []Head{h}
	}
}

// AddKeeping adds a run that keeps a limit: a set of its own.
func (f *QueueFacts) AddKeeping(r WaitingRun) {
	h := Head{Runs: []WaitingRun{r}}
	f.Heads = append(f.Heads, h)
	if f.Queue.PromoteAfterMS > 0 {
		f.Oldest = append(f.Oldest, h)
	}
}

// WaitingPlace is what explains a run that waits in a queue. Its only head is that run.
type WaitingPlace struct {
	QueueFacts
	Before  int                                  // runs of higher priorities that wait
	Flights []schedule.Key                       // the runs of the queue that were admitted first and are not over
	Uses    map[schedule.LimitRef][]schedule.Key // runs that use the run's limits, some of many
	Turns   *FairBefore                          // nil: the run has drawn nothing in a fair queue
}

// Blocks are what keeps the only run of the facts from its start, for a launcher with free calls:
// what blocks its queue, and each of its limits that does. none: nothing.
func (f *QueueFacts) Blocks(now time.Time) (blocks []Block) {
	v := f.visit(&schedule.AdmitRequest{Now: now, Free: maxAdmitted})
	v.NoWorker = f.Unfetched(now)
	a := admitting{v: &v, used: make(map[schedule.LimitRef]int)}
	a.reserve()
	if b := a.blockedAll(); b != nil {
		blocks = append(blocks, *b)
	}
	for i := range f.Heads {
		r := &f.Heads[i].Runs[0]
		for _, ref := range r.Limits {
			if b := a.fullLimit([]schedule.LimitRef{ref}, r.Kept); b != nil {
				blocks = append(blocks, *b)
			} else if b := a.heldByRate(ref); b != nil {
				blocks = append(blocks, *b)
			}
		}
	}
	return blocks
}

// block is what keeps runs waiting: what blocks all, else the rate that ends first, else any
// limit. nil: nothing.
func (a *Admission) block() *Block {
	if a.All != nil {
		return a.All
	}
	var found *Block
	for _, set := range slices.Sorted(maps.Keys(a.Sets)) {
		b := a.Sets[set]
		if found == nil || !b.Until.IsZero() && (found.Until.IsZero() || b.Until.Before(found.Until)) {
			found = &b
		}
	}
	return found
}

// probeFor is how long a queue waits for the answer to a probe before it sends another.
const probeFor = 5 * time.Second

// Choice is which waiting runs start, before their rows are read.
type Choice struct {
	Admission
	visit Visit
}

// ChooseRuns decides which runs of a queue start.
func ChooseRuns(req *schedule.AdmitRequest, f *QueueFacts) *Choice {
	v := f.visit(req)
	return &Choice{Admission: Admit(&v), visit: v}
}

// Keys are the keys of the chosen runs, in the order in which they start.
func (c *Choice) Keys() []schedule.Key {
	keys := make([]schedule.Key, len(c.Runs))
	for i := range c.Runs {
		keys[i] = c.Runs[i].Run.Key
	}
	return keys
}

// AdmitRuns makes the admission of the chosen runs: which are sent, and which end because they
// may not be. A run that is not found, or not as it was when it was chosen, waits.
func AdmitRuns(req *schedule.AdmitRequest, f *QueueFacts, c *Choice, found []WaitingFacts) Dispatched {
	out := Dispatched{Queue: f.Queue, Block: c.block(), StallLevel: f.stall().Level, Again: c.Unread}
	if req.Fetch != nil {
		out.Fetched = f.fetched(req.Fetch)
	}
	byKey := make(map[schedule.Key]*WaitingFacts, len(found))
	for i := range found {
		byKey[found[i].Run.Key] = &found[i]
	}
	for _, chosen := range c.Runs {
		w := byKey[chosen.Run.Key]
		if w == nil || w.Run.Queue.State != schedule.QueueWaiting || limitSet(&w.Run) != chosen.Run.Set {
			out.Again = true
			continue
		}
		d, end := permit(req, w)
		if end != nil {
			out.Ended, out.Again = append(out.Ended, *end), true
			continue
		}
		if !d.sendable() { // by this clock it is too early to refuse it for good: the next visit does
			continue
		}
		d.StartAt, d.Aged = chosen.StartAt, chosen.Aged
		if d.Run.Queue.AdmittedAs = schedule.AdmittedInOrder; chosen.Aged {
			d.Run.Queue.AdmittedAs = schedule.AdmittedAged
		}
		if req.Fetch != nil {
			d.handOver(f, req.Fetch.Worker, out.Fetched.slots[len(out.Dispatches)], req.Now)
		}
		out.Dispatches = append(out.Dispatches, d)
		out.use(c, chosen.Run)
	}
	out.noteStarts(f, c)
	out.noteClocks()
	out.Reserved.grant(f, c.Granted, c.visit.Limits, req.Now)
	out.Again = out.Again && f.stall().Level == 0
	if f.stall().Level > 0 && len(out.Dispatches) > 0 {
		stall := f.Stall
		stall.Until = stored(req.Now.Add(probeFor))
		out.Stall = &schedule.StallChange{QueueStall: stall}
	}
	return out
}

// sendable reports whether the executor may be called.
func (d *Dispatch) sendable() bool {
	return d.Begun.Permission == schedule.Granted || d.Begun.Permission == schedule.GrantedAgain
}

// use notes the limits that a run uses from now on.
func (d *Dispatched) use(c *Choice, r *WaitingRun) {
	for _, ref := range r.Limits {
		if l := c.visit.Limits[ref]; l != nil {
			d.Uses = append(d.Uses, LimitUse{LimitNo: l.No, Key: ref.Key, UsedBy: r.Key})
		}
	}
}

// noteStarts notes the rates that the starts have moved.
func (d *Dispatched) noteStarts(f *QueueFacts, c *Choice) {
	if len(c.Runs) == 0 {
		return
	}
	if next := c.visit.Rate.Next; !next.Equal(f.NextStart) {
		d.NextStart = next
	}
	noted := make(map[schedule.LimitRef]bool)
	for i := range c.Runs {
		for _, ref := range c.Runs[i].Run.Limits {
			if l := c.visit.Limits[ref]; l != nil && l.Rate.Starts > 0 && !noted[ref] {
				noted[ref] = true
				d.Starts = append(d.Starts, LimitStart{LimitNo: l.No, Key: ref.Key, Next: l.Rate.Next})
			}
		}
	}
}

// permit returns a waiting run as its admission makes it, or how it ends if it may not be sent.
func permit(req *schedule.AdmitRequest, w *WaitingFacts) (Dispatch, *schedule.Settlement) {
	if w.Definition == nil {
		return Dispatch{}, &schedule.Settlement{
			Key: w.Run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, ErrorCode: string(schedule.CodeDefinitionUnreadable), CompletedAt: req.Now,
			ErrorMessage: fmt.Sprintf("revision %d of schedule %s, with the workflow and input of the run, cannot be read", w.Run.Revision, schedule.Quote(w.Run.ScheduleID)),
		}
	}
	d := dispatch(req, w)
	if d.Begun.Permission == schedule.Refused {
		end := EndOfKey(&d.Begun.Request, req.Now)
		return Dispatch{}, &end
	}
	return d, nil
}

// dispatch is a run as its admission makes it. The admission is the record of its call.
func dispatch(req *schedule.AdmitRequest, w *WaitingFacts) Dispatch {
	run := w.Run
	run.Enter(schedule.StatusLaunching)
	if run.ClaimedAt.IsZero() {
		run.ClaimedAt = stored(req.Now)
	}
	run.TimeoutAt, run.ClaimedUntil, run.UpdatedAt = stored(schedule.LaunchUntil(w.Definition, run.FireAt, req.Now, req.RetryFor)), time.Time{}, stored(req.Now)
	launch := schedule.Launch{Run: run, Definition: w.Definition}
	start := launch.StartRequest()
	begin := schedule.BeginRequest{
		Key: start.Key, ScheduleID: start.ScheduleID, ScheduledFor: start.ScheduledFor, Trigger: start.Trigger, Version: start.Version, Input: start.Input,
		Grant: start.GrantUse(req.RequireGrant), FireAt: start.FireAt, Lease: req.Lease(start.Key), Holder: req.Holder,
	}
	result := Begin(&begin, &BeginFacts{Run: &run, Definition: w.Definition, Grant: w.Grant}, req.Now)
	result.CheckedAt = req.Now
	if result.Permission == schedule.Granted || result.Permission == schedule.GrantedAgain {
		launch.Run.Deliveries = result.Request.Calls
	}
	return Dispatch{Launch: launch, Begun: result}
}
