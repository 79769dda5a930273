package ledger

import (
	"container/heap"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// fairShare is how many times the free capacity one owner may hold. So a tenth of the
// capacity stays free for other owners, without knowing them in advance: a dynamic
// threshold (Choudhury and Hahne, 1998).
const fairShare = 9

// Share returns how many more runs an owner with own runs may have if free are left: the
// greatest n with own + n <= fairShare × (free − n), and at least one for an owner
// without runs.
func Share(own, free int) int {
	n := (fairShare*free - own) / (fairShare + 1)
	if own == 0 && free > 0 {
		n = max(n, 1)
	}
	return max(n, 0)
}

// ownerRuns are the runs of one owner in claim order.
type ownerRuns struct {
	capacity int       // how many the owner may have in this pass
	lists    [3][]*run // the first waiting runs of groups that are freed, what is due, what is early
	next     *run
	taken    int
}

// choice is what a pass looks at, in claim order.
type choice struct {
	launches []*run // within the free launches
	entries  []*run // due, and known to go into queues: they take no launch
	left     bool   // anything that could be claimed was left behind
	unread   bool   // see Verdicts.Unread
}

// maxEntries caps the runs of one pass that go into queues: a pass stays short.
const maxEntries = 1000

// choose takes up to p.Limit runs for launches and up to maxEntries for queues, in claim
// order. With more than that, owners alternate: the first run of each before the second of any.
func (s *ShardState) choose(p *Pass) (c choice) {
	now, reach := micro(p.Now), micro(p.Now.Add(p.ClaimAhead))
	launchable := func(r *run) bool {
		// A run that could only be blocked early is left until it is due.
		return r.queue != queueSome && !r.isHeld(now) && (!isEarly(r) || r.fireAt <= reach && (!r.exclusive || r.group.exclusive == 0))
	}
	enterable := func(r *run) bool { return !r.isHeld(now) }
	order := byClaimAt(now)
	launches, entries := ownersQueue{now: now, order: order, eligible: launchable}, ownersQueue{now: now, order: order, eligible: enterable}
	for o := range s.active {
		if o.idle() {
			delete(s.active, o)
			continue
		}
		capacity := p.Limit
		if p.Capacity != nil {
			capacity = min(max(p.Capacity(o.id), 0), p.Limit)
		}
		launching, entering := o.firstWaiting(now, order)
		launches.add(capacity, [3][]*run{launching, o.due.inOrder(byClaim), o.early.inOrder(byClaim)})
		entries.add(maxEntries, [3][]*run{entering, o.entering.inOrder(byClaim)})
	}
	var left, leftEntries bool
	c.launches, left = launches.take(p.Limit)
	c.entries, leftEntries = entries.take(maxEntries)
	c.left = left || leftEntries
	return c
}

// firstWaiting are waiting runs of the owner's groups that are freed, in claim order, without those that
// wait for the end of a pause: of each group the first that needs a launch and the first that enters a
// queue. The verdict on the group says which of its runs goes first.
func (o *owner) firstWaiting(now int64, order func(a, b *run) int) (launching, entering []*run) {
	for g := range o.freed {
		first := func(enters bool) []*run {
			i := slices.IndexFunc(g.waiting, func(r *run) bool { return !r.isHeld(now) && (r.queue == queueSome) == enters })
			return g.waiting[max(i, 0) : i+1]
		}
		launching, entering = append(launching, first(false)...), append(entering, first(true)...)
	}
	slices.SortFunc(launching, order)
	slices.SortFunc(entering, order)
	return launching, entering
}

// advance goes to the owner's next run.
func (t *ownerRuns) advance(eligible func(*run) bool, order func(a, b *run) int) {
	for i, from := range []place{placeWaiting, placeDue, placeEarly} {
		for len(t.lists[i]) > 0 && (t.lists[i][0].place != from || !eligible(t.lists[i][0])) {
			t.lists[i] = t.lists[i][1:] // it has left, or cannot be claimed early
		}
	}
	from := -1
	for i := range t.lists {
		if len(t.lists[i]) > 0 && (from < 0 || order(t.lists[i][0], t.lists[from][0]) < 0) {
			from = i
		}
	}
	if t.next = nil; from >= 0 {
		t.next, t.lists[from] = t.lists[from][0], t.lists[from][1:]
	}
}

// ownersQueue is a heap of owners, ordered by the round and claim order of their next
// run.
type ownersQueue struct {
	now      int64
	order    func(a, b *run) int
	eligible func(*run) bool
	heads    []*ownerRuns
}

// add enters an owner with lists of its runs, each in claim order.
func (q *ownersQueue) add(capacity int, lists [3][]*run) {
	t := &ownerRuns{capacity: capacity, lists: lists}
	if t.advance(q.eligible, q.order); t.next != nil {
		q.heads = append(q.heads, t)
	}
}

// take takes up to limit runs. left reports whether any was left behind.
func (q *ownersQueue) take(limit int) (chosen []*run, left bool) {
	heap.Init(q)
	for len(q.heads) > 0 {
		t := q.heads[0]
		switch {
		case len(chosen) == limit:
			return chosen, true
		case t.taken == t.capacity:
			left = true
			heap.Pop(q)
			continue
		}
		chosen = append(chosen, t.next)
		t.taken++
		if t.advance(q.eligible, q.order); t.next == nil {
			heap.Pop(q)
		} else {
			heap.Fix(q, 0)
		}
	}
	return chosen, left
}

func (q *ownersQueue) Len() int      { return len(q.heads) }
func (q *ownersQueue) Swap(i, j int) { q.heads[i], q.heads[j] = q.heads[j], q.heads[i] }
func (q *ownersQueue) Push(any)      { panic("ledger: no owner comes during a pass") }

func (q *ownersQueue) Pop() any {
	last := len(q.heads) - 1
	t := q.heads[last]
	q.heads = q.heads[:last]
	return t
}

func (q *ownersQueue) Less(i, j int) bool {
	a, b := q.heads[i], q.heads[j]
	early := schedule.FalseFirst(a.next.fireAt > q.now, b.next.fireAt > q.now)
	switch {
	case early != 0:
		return early < 0
	case a.next.afterOthers != b.next.afterOthers:
		return b.next.afterOthers
	case a.taken != b.taken:
		return a.taken < b.taken
	}
	return byClaim(a.next, b.next) < 0
}
