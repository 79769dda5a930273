package ledger

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// PlayedRun is a run of a queue that a Play plays.
type PlayedRun struct {
	WaitingRun
	FairKey string // what it counts for in a fair queue
	State   schedule.QueueState
	Ready   time.Time     // it is delayed until then
	GroupNo int32         // with GroupSeq: its place in a sequential group; 0: none
	Seq     int32         // its place in the group
	Takes   time.Duration // in flight; of an admitted run what is left of it
	Unknown bool          // how long it takes is unknown: it never ends

	InFlightBefore bool // it was admitted before the play

	Started time.Time // zero: it did not start; of an admitted run the beginning of the play
	Ended   time.Time // zero: it did not end
}

// PlayedUse is a use of limits by something that is no run of the queue: it ends at Until, or if that is
// zero, never.
type PlayedUse struct {
	Limits []schedule.LimitRef
	From   time.Time
	Until  time.Time
}

// Play plays the admissions of a queue on a virtual clock. It decides nothing itself: Admit does.
type Play struct {
	Facts QueueFacts // of the beginning; heads are not used
	Runs  []PlayedRun
	Uses  []PlayedUse // of the limits in Facts, from elsewhere; gets those of reservations
	Now   time.Time   // the beginning; afterwards the instant at which it stopped
	Until time.Time
	Stop  int // the play stops when this run starts; -1: no run
	// Spend counts steps of about 50 ns; false stops the play. nil: anything is allowed.
	Spend func(steps int) bool

	Spent bool   // it was stopped by Spend
	Stuck bool   // nothing will ever happen again
	Last  *Block // what blocked the set of Stop, or else all runs, at the last admission

	sets    map[string]*playedSet
	names   []string // of sets
	parked  map[schedule.LimitRef][]*playedSet
	index   map[schedule.Key]int
	groups  map[int32][]int // members by seq, of groups with a chained one
	turns   *playedTurns    // nil: the queue is not fair
	events  eventHeap
	rateAt  time.Time // a rate lets a run start then; zero: no rate blocks
	scratch []WaitingRun
}

// playedSet are the waiting runs of a limit set, in order.
type playedSet struct {
	name   string
	order  []int
	parked *Block // one of its limits is full; nil: that is not known
}

type playEvent struct {
	at   time.Time
	kind playKind
	i    int
}

// playKind orders the events of an instant: what frees something comes first.
type playKind int

const (
	playEnd playKind = iota
	playRelease
	playUseEnd
	playReady
	playWake
)

type eventHeap []playEvent

func (h eventHeap) Len() int      { return len(h) }
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h eventHeap) Less(i, j int) bool {
	return cmp.Or(h[i].at.Compare(h[j].at), cmp.Compare(h[i].kind, h[j].kind), cmp.Compare(h[i].i, h[j].i)) < 0
}
func (h *eventHeap) Push(e any) { *h = append(*h, e.(playEvent)) }
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}

// Play plays until Until, the start of Stop, or until nothing happens any more.
func (p *Play) Play() {
	p.begin()
	for {
		if !p.admit() || p.Stop >= 0 && !p.Runs[p.Stop].Started.IsZero() {
			return
		}
		next := p.rateAt
		if len(p.events) > 0 {
			next = sooner(next, p.events[0].at)
		}
		switch {
		case next.IsZero():
			p.Stuck = true
			return
		case next.After(p.Until):
			p.Now = p.Until
			return
		}
		p.Now = next
		for len(p.events) > 0 && !p.events[0].at.After(p.Now) {
			p.happen(heap.Pop(&p.events).(playEvent))
		}
	}
}

func (p *Play) begin() {
	p.sets, p.parked, p.index = make(map[string]*playedSet), make(map[schedule.LimitRef][]*playedSet), make(map[schedule.Key]int)
	p.groups, p.turns = make(map[int32][]int), p.beginTurns()
	for i := range p.Uses {
		if !p.Uses[i].Until.IsZero() {
			p.at(p.Uses[i].Until, playUseEnd, i)
		}
	}
	if q := *p.Facts.Queue; q.Pulled() { // workers fetch as launchers would admit
		q.Delivery = schedule.DeliveryPush
		p.Facts.Queue, p.Facts.Stall = &q, schedule.QueueStall{}
	}
	p.copyFacts()
	chained := make(map[int32]bool)
	for i := range p.Runs {
		r := &p.Runs[i]
		p.index[r.Key] = i
		if r.State == schedule.QueueChained {
			chained[r.GroupNo] = true
		}
		switch {
		case r.State.Admitted():
			if r.Started, r.InFlightBefore = p.Now, true; !r.Unknown {
				p.at(p.Now.Add(r.Takes), playEnd, i)
			}
		case r.State == schedule.QueueDelayed:
			p.at(r.Ready, playReady, i)
		}
	}
	var waiting []int
	for i := range p.Runs {
		if r := &p.Runs[i]; r.State == schedule.QueueWaiting {
			waiting = append(waiting, i)
		}
		if g := p.Runs[i].GroupNo; g != 0 && chained[g] {
			p.groups[g] = append(p.groups[g], i)
		}
	}
	slices.SortFunc(waiting, func(a, b int) int { return CompareWaiting(&p.Runs[a].WaitingRun, &p.Runs[b].WaitingRun) })
	for _, i := range waiting {
		s := p.set(p.Runs[i].Set)
		s.order = append(s.order, i)
	}
	for _, g := range slices.Sorted(maps.Keys(p.groups)) {
		slices.SortFunc(p.groups[g], func(a, b int) int { return cmp.Compare(p.Runs[a].Seq, p.Runs[b].Seq) })
		p.unchain(g)
	}
}

// copyFacts makes what the play changes its own. A reservation that waits is waited for until it is
// granted.
func (p *Play) copyFacts() {
	f := &p.Facts
	f.Heads, f.Oldest = nil, nil
	reserved := make([]schedule.Reservation, 0, len(f.Reserved))
	for _, r := range f.Reserved {
		switch {
		case r.Over(p.Now):
			continue
		case r.Granted():
			p.Uses = append(p.Uses, PlayedUse{Limits: r.Limits.Refs(), From: p.Now, Until: r.EndsAt})
			p.at(r.EndsAt, playRelease, 0)
		default:
			r.EndsAt = schedule.MaxTime
		}
		reserved = append(reserved, r)
	}
	f.Reserved = reserved
	limits := make(map[schedule.LimitRef]*LimitNow, len(f.Limits))
	for ref, l := range f.Limits {
		own := *l
		if limits[ref] = &own; own.After != nil {
			p.at(own.Until, playWake, 0)
		}
	}
	f.Limits = limits
	if pause := f.Queue.Pause; pause.Active(p.Now) && !pause.Until.IsZero() {
		p.at(pause.Until, playWake, 0)
	}
	if f.Stall.Until.After(p.Now) {
		p.at(f.Stall.Until, playWake, 0)
	}
}

func (p *Play) at(at time.Time, kind playKind, i int) {
	heap.Push(&p.events, playEvent{schedule.Later(at, p.Now), kind, i})
}

func (p *Play) set(name string) *playedSet {
	s := p.sets[name]
	if s == nil {
		s = &playedSet{name: name}
		p.sets[name] = s
		at, _ := slices.BinarySearch(p.names, name)
		p.names = slices.Insert(p.names, at, name)
	}
	return s
}

func (p *Play) happen(e playEvent) {
	switch e.kind {
	case playEnd:
		r := &p.Runs[e.i]
		r.Ended = p.Now
		p.Facts.InFlight--
		p.free(r.Limits)
		if r.GroupNo != 0 {
			p.unchain(r.GroupNo)
		}
	case playRelease:
		p.Facts.Reserved = slices.DeleteFunc(p.Facts.Reserved, func(r schedule.Reservation) bool {
			if over := r.Granted() && r.Over(p.Now); over {
				p.free(r.Limits.Refs())
				return true
			}
			return false
		})
	case playUseEnd:
		p.free(p.Uses[e.i].Limits)
	case playReady:
		p.Runs[e.i].State = schedule.QueueWaiting
		p.wait(e.i)
	case playWake:
		p.changeLimits()
	}
}

// free gives back one use of each limit.
func (p *Play) free(limits []schedule.LimitRef) {
	for _, ref := range limits {
		if l := p.Facts.Limits[ref]; l != nil {
			l.Used = max(0, l.Used-1)
		}
		p.unpark(ref)
	}
}

func (p *Play) unpark(ref schedule.LimitRef) {
	for _, s := range p.parked[ref] {
		s.parked = nil
	}
	delete(p.parked, ref)
}

// changeLimits gives limits the numbers that hold once those of their keys have ended.
func (p *Play) changeLimits() {
	for ref, l := range p.Facts.Limits {
		if l.After != nil && !l.Until.After(p.Now) {
			after := *l.After
			after.Used, after.Rate.Next = l.Used, l.Rate.Next
			p.Facts.Limits[ref] = &after
			p.unpark(ref)
		}
	}
}

// wait puts a run among those that wait.
func (p *Play) wait(i int) {
	p.turns.draw(&p.Runs[i])
	s := p.set(p.Runs[i].Set)
	at, _ := slices.BinarySearchFunc(s.order, i, p.compare)
	s.order = slices.Insert(s.order, at, i)
}

func (p *Play) compare(a, b int) int {
	return CompareWaiting(&p.Runs[a].WaitingRun, &p.Runs[b].WaitingRun)
}

// unchain lets the first open member of a group wait, if it is chained.
func (p *Play) unchain(group int32) {
	members := p.groups[group]
	for len(members) > 0 && !p.Runs[members[0]].Ended.IsZero() {
		members = members[1:]
	}
	p.groups[group] = members
	if len(members) == 0 {
		return
	}
	r := &p.Runs[members[0]]
	switch {
	case r.State != schedule.QueueChained:
	case r.Ready.After(p.Now):
		r.State = schedule.QueueDelayed
		p.at(r.Ready, playReady, members[0])
	default:
		r.State = schedule.QueueWaiting
		p.wait(members[0])
	}
}
