package ledger

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// maxAdmitted bounds the runs of one admission.
const maxAdmitted = 1000

// WaitingRun is a run that waits in a dispatch queue.
type WaitingRun struct {
	Key    schedule.Key
	Owner  string
	Set    string // the limit set: the same things block all its runs
	Limits []schedule.LimitRef
	Kept   []schedule.LimitRef // ordered limits that the run uses while it waits: the attempt before it has left them to it
	Since  time.Time           // since when it could have started
	Order  QueueOrder
}

// Waiting is a run of a queue as an admission sees it.
func Waiting(r *schedule.Run) WaitingRun {
	q := &r.Queue
	return WaitingRun{
		Key: r.Key, Owner: r.UserID, Set: limitSet(r), Limits: q.Limits.Refs(), Kept: q.Kept.Refs(), Since: q.EnqueuedAt,
		Order: QueueOrder{Priority: q.Priority, FairOrder: q.FairOrder, Position: q.Position},
	}
}

// limitSet names the limit set of a run. A run that keeps a limit is a set of its own: the others
// wait for it, and it does not wait for itself.
func limitSet(r *schedule.Run) string {
	if r.Queue.Kept != "" {
		return "kept by " + r.Key.String()
	}
	return string(r.Queue.Limits)
}

// QueueOrder orders the runs of a queue, ascending. Runs that are equal go by their keys.
type QueueOrder struct {
	Priority  int32 // effective_priority
	FairOrder int64 // 0 of a run that has drawn none
	Position  int64 // position_key
}

// Compare orders by priority, fair order and position.
func (o QueueOrder) Compare(other QueueOrder) int {
	return cmp.Or(cmp.Compare(o.Priority, other.Priority), cmp.Compare(o.FairOrder, other.FairOrder), cmp.Compare(o.Position, other.Position))
}

// CompareWaiting is the order of a queue.
func CompareWaiting(a, b *WaitingRun) int {
	return cmp.Or(a.Order.Compare(b.Order), slices.Compare(a.Key[:], b.Key[:]))
}

// Head is the first waiting runs of a limit set and priority, in order.
type Head struct {
	Runs []WaitingRun // at least one
	More bool         // others of the set and priority come after them
}

// LimitNow is a limit as an admission finds it.
type LimitNow struct {
	No        int32
	Max       int  // in flight; 0: none may start
	Unlimited bool // Max does not matter: only the rate does
	Used      int
	Rate      Rate
	// After is the limit once the numbers of its key have ended, at Until; nil: they have no end, or
	// there are none. Only what looks ahead needs it.
	After *LimitNow
	Until time.Time
}

// Visit is what one admission reads of a queue, under its lock.
type Visit struct {
	Now          time.Time
	Free         int // calls of this launcher that are free
	MaxInFlight  int
	InFlight     int // admitted runs that are not over, and granted reservations
	Rate         Rate
	Paused       bool
	NoWorker     bool      // workers fetch the runs, and none does now
	StalledUntil time.Time // zero: the executor can take work
	PromoteAfter time.Duration
	Oldest       []Head                          // with PromoteAfter: among their runs are those that wait longest
	Reservations []Reservation                   // that wait, in order of arrival
	Heads        []Head                          // of each limit set and priority with a waiting run
	Limits       map[schedule.LimitRef]*LimitNow // of these runs and reservations; none: it binds nothing
	Blocked      map[string]Block                // limit sets without a head, and what blocks them
	OwnerCalls   *int                            // how many calls the owner of the queue may take; nil: any number
}

// Reservation waits for the next slot of a queue, ahead of all runs.
type Reservation struct {
	ID     schedule.Key
	Limits []schedule.LimitRef
}

// BlockedBy says what keeps a waiting run from its start.
type BlockedBy string

// What blocks a run of a queue.
const (
	BlockedByPause  BlockedBy = "paused"      // the queue
	BlockedByStall  BlockedBy = "stalled"     // the executor cannot take work
	BlockedByFull   BlockedBy = "full"        // the queue's max_in_flight
	BlockedByCalls  BlockedBy = "no_launcher" // no call of a launcher is free
	BlockedByLimit  BlockedBy = "limit"       // a limit is full
	BlockedByRate   BlockedBy = "rate"        // of the queue, or of a limit
	BlockedByOwner  BlockedBy = "owner_share" // the owner of the queue has its share of the launcher's calls
	BlockedByWorker BlockedBy = "no_worker"   // no worker fetches runs of the queue
	BlockedByBefore BlockedBy = "behind"      // runs that come before it
)

// Block is why no further run of a queue, or of a limit set, starts.
type Block struct {
	What  BlockedBy
	Limit schedule.LimitRef // of limit and rate; zero: the queue's own
	Used  int               // of full and limit, with what this admission has taken
	Max   int               // of full and limit
	Until time.Time         // of stalled and rate: it ends then
}

// Admitted is a run that starts.
type Admitted struct {
	Run     *WaitingRun
	Aged    bool      // it waited for PromoteAfter and passed others
	StartAt time.Time // not before Visit.Now, and less than a second later
}

// Admission is the verdict of a visit. The instants of the rates are in the Visit.
type Admission struct {
	Granted []*Reservation
	Runs    []Admitted
	// All blocks all runs that are left; nil: see Sets.
	All *Block
	// Sets has what blocks a limit set, as far as the admission came to it.
	Sets map[string]Block
	// Unread: all runs of a head have started, and a run that was not read may be next. So
	// the admission ended; with new heads it can go on.
	Unread bool
}

// Admit decides which waiting runs of a queue start. Reservations go first, in order of
// arrival. Then the runs go in the order of the queue, and each starts unless something
// blocks its limit set. With PromoteAfter, every second start at most is that of the run
// that waits longest, if it waits for so long. Admit ends when nothing is free, every limit
// set is blocked, or a thousand runs start.
//
// No run starts while one that comes before it could: whatever starts is the first that
// nothing blocks. It changes the rates of v and of its limits to those after the starts.
func Admit(v *Visit) Admission {
	a := admitting{v: v, used: make(map[schedule.LimitRef]int), started: make(map[schedule.Key]bool)}
	a.out.Sets = make(map[string]Block)
	maps.Copy(a.out.Sets, v.Blocked)
	a.reserve()
	for i := range v.Heads {
		a.heads = append(a.heads, &headAt{Head: &v.Heads[i]})
	}
	heap.Init(&a.heads)
	for len(a.out.Runs) < maxAdmitted {
		if a.out.All = a.blockedAll(); a.out.All != nil {
			break
		}
		if a.out.Unread = a.unreadAged(); a.out.Unread {
			break
		}
		run, aged := a.next()
		if run == nil {
			break
		}
		a.start(run, aged)
	}
	return a.out
}

// admitting is one call of Admit.
type admitting struct {
	v        *Visit
	out      Admission
	heads    headQueue
	started  map[schedule.Key]bool
	used     map[schedule.LimitRef]int // uses that begin
	lastAged bool                      // the last start was that of an aged run
}

func (a *admitting) inFlight() int { return a.v.InFlight + len(a.out.Runs) + len(a.out.Granted) }

// reserve grants reservations. They call no executor, so a stall and the launcher's calls do
// not matter. One whose limits are full is passed over.
func (a *admitting) reserve() {
	for i := range a.v.Reservations {
		r := &a.v.Reservations[i]
		switch {
		case a.v.Paused || a.inFlight() >= a.v.MaxInFlight:
			return
		case a.fullLimit(r.Limits, nil) == nil:
			a.use(r.Limits, nil)
			a.out.Granted = append(a.out.Granted, r)
		}
	}
}

// blockedAll is what blocks every run; nil: nothing.
func (a *admitting) blockedAll() *Block {
	v := a.v
	switch at := v.Rate.first(v.Now); {
	case v.Paused:
		return &Block{What: BlockedByPause}
	case v.NoWorker:
		return &Block{What: BlockedByWorker}
	case v.StalledUntil.After(v.Now):
		return &Block{What: BlockedByStall, Until: v.StalledUntil}
	case a.inFlight() >= v.MaxInFlight:
		return &Block{What: BlockedByFull, Used: a.inFlight(), Max: v.MaxInFlight}
	case len(a.out.Runs) >= v.Free:
		return &Block{What: BlockedByCalls}
	case v.OwnerCalls != nil && len(a.out.Runs) >= *v.OwnerCalls:
		return &Block{What: BlockedByOwner}
	case at.After(v.Now.Add(startAhead)):
		return &Block{What: BlockedByRate, Until: at}
	}
	return nil
}

// fullLimit is the first limit that is full; nil: none. A use that the run has kept does not count.
func (a *admitting) fullLimit(limits, kept []schedule.LimitRef) *Block {
	for _, ref := range limits {
		l := a.v.Limits[ref]
		if l == nil || l.Unlimited {
			continue
		}
		used := l.Used + a.used[ref]
		if slices.Contains(kept, ref) {
			used--
		}
		if used >= l.Max {
			return &Block{What: BlockedByLimit, Limit: ref, Used: used, Max: l.Max}
		}
	}
	return nil
}

// heldByRate is the rate of a limit that has no start left now; nil: it has one, or there is none.
func (a *admitting) heldByRate(ref schedule.LimitRef) *Block {
	l := a.v.Limits[ref]
	if l == nil {
		return nil
	}
	at := l.Rate.first(a.v.Now)
	if !at.After(a.v.Now.Add(startAhead)) {
		return nil
	}
	return &Block{What: BlockedByRate, Limit: ref, Until: at}
}

func (a *admitting) use(limits, kept []schedule.LimitRef) {
	for _, ref := range limits {
		if !slices.Contains(kept, ref) {
			a.used[ref]++
		}
	}
}

// blocked is what blocks the limit set of r; nil: nothing. A set that is
// blocked remains so: a visit frees nothing.
func (a *admitting) blocked(r *WaitingRun) *Block {
	if b, known := a.out.Sets[r.Set]; known {
		return &b
	}
	b := a.blockedLimits(r.Limits, r.Kept)
	if b != nil {
		a.out.Sets[r.Set] = *b
	}
	return b
}

// blockedLimits is the first limit that is full, else the first rate without a start; nil: neither.
func (a *admitting) blockedLimits(limits, kept []schedule.LimitRef) *Block {
	b := a.fullLimit(limits, kept)
	for _, ref := range limits {
		if b == nil {
			b = a.heldByRate(ref)
		}
	}
	return b
}

// next is the run that starts next; nil: none can.
func (a *admitting) next() (run *WaitingRun, aged bool) {
	if run = a.aged(); run != nil {
		return run, true
	}
	for len(a.heads) > 0 {
		h := a.heads[0]
		r := h.run()
		switch {
		case a.blocked(r) != nil:
			heap.Pop(&a.heads)
		case h.next == len(h.Runs) && h.More:
			a.out.Unread = true
			return nil, false
		case h.next == len(h.Runs):
			heap.Pop(&a.heads)
		default:
			h.next++
			heap.Fix(&a.heads, 0)
			if !a.started[r.Key] {
				return r, false
			}
		}
	}
	return nil, false
}

// aged is the run that passes others because it waits for so long; nil: none does. It is
// never the next after another one.
func (a *admitting) aged() (oldest *WaitingRun) {
	if a.v.PromoteAfter <= 0 || a.lastAged {
		return nil
	}
	for i := range a.v.Oldest {
		for j := range a.v.Oldest[i].Runs {
			r := &a.v.Oldest[i].Runs[j]
			switch {
			case a.v.Now.Sub(r.Since) < a.v.PromoteAfter || a.started[r.Key]:
			case oldest != nil && cmp.Or(oldest.Since.Compare(r.Since), CompareWaiting(oldest, r)) <= 0:
			case a.blocked(r) == nil:
				oldest = r
			}
		}
	}
	return oldest
}

// unreadAged reports whether a run that was not read may be one that passes others: all runs of
// its head have started, and the last of them had waited long enough.
func (a *admitting) unreadAged() bool {
	if a.v.PromoteAfter <= 0 || a.lastAged {
		return false
	}
	for i := range a.v.Oldest {
		h := &a.v.Oldest[i]
		last := &h.Runs[len(h.Runs)-1]
		if h.More && a.v.Now.Sub(last.Since) >= a.v.PromoteAfter && !slices.ContainsFunc(h.Runs, func(r WaitingRun) bool { return !a.started[r.Key] }) {
			return true
		}
	}
	return false
}

func (a *admitting) start(r *WaitingRun, aged bool) {
	rates := []*Rate{&a.v.Rate}
	for _, ref := range r.Limits {
		if l := a.v.Limits[ref]; l != nil {
			rates = append(rates, &l.Rate)
		}
	}
	at := a.v.Now
	for _, rate := range rates {
		if first := rate.first(a.v.Now); first.After(at) {
			at = first
		}
	}
	for _, rate := range rates {
		rate.start(at)
	}
	a.use(r.Limits, r.Kept)
	a.started[r.Key], a.lastAged = true, aged
	a.out.Runs = append(a.out.Runs, Admitted{Run: r, Aged: aged, StartAt: at})
}
