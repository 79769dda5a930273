package memory

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// living indexes the open rows for the passes. The cost of a pass depends on what it
// finds, not on all open rows: a simulation makes some passes for each slot. A row must
// be removed before it is edited and added again after it.
type living struct {
	planned    ordered // PLANNED and not waiting, by fire_at
	waiting    ordered // PLANNED and waiting, by fire_at
	launching  ordered // LAUNCHING, by timeout_at
	started    ordered // ENQUEUED and STARTED, by timeout_at
	cancelling ordered // of launching and started: a cancel was requested
	queued     ordered // those of dispatch queues, in the order of the queue; in none of the other lists
	keys       map[string]*keyRows
}

// keyRows are the open rows of one overlap key.
type keyRows struct {
	waiting   ordered // by fire_at
	queue     []schedule.Run
	inFlight  ordered // by fire_at
	exclusive int     // of inFlight
}

func newLiving() living {
	byFireAt := func() ordered { return ordered{less: schedule.ByFireAt} }
	byTimeout := func() ordered { return ordered{less: byTimeoutAt} }
	return living{
		planned: byFireAt(), waiting: byFireAt(), launching: byTimeout(), started: byTimeout(), cancelling: byTimeout(), queued: ordered{less: byQueueOrder},
		keys: make(map[string]*keyRows),
	}
}

func byTimeoutAt(a, b *schedule.Run) int {
	return cmp.Or(a.TimeoutAt.Compare(b.TimeoutAt), slices.Compare(a.Key[:], b.Key[:]))
}

func byQueueOrder(a, b *schedule.Run) int {
	x, y := &a.Queue, &b.Queue
	return cmp.Or(cmp.Compare(x.No, y.No), cmp.Compare(x.Priority, y.Priority), cmp.Compare(x.FairOrder, y.FairOrder), cmp.Compare(x.Position, y.Position), slices.Compare(a.Key[:], b.Key[:]))
}

func (l *living) add(r *schedule.Run) {
	if r.Status.Terminal() {
		return
	}
	l.list(r).add(r)
	if !r.Queue.In() && r.Status != schedule.StatusPlanned && !r.CancelRequestedAt.IsZero() {
		l.cancelling.add(r)
	}
	if !isMember(r) {
		return
	}
	k := l.keys[r.OverlapKey]
	if k == nil {
		k = &keyRows{waiting: ordered{less: schedule.ByFireAt}, inFlight: ordered{less: schedule.ByFireAt}}
		l.keys[r.OverlapKey] = k
	}
	k.add(r)
}

func (l *living) remove(r *schedule.Run) {
	if r.Status.Terminal() {
		return
	}
	l.list(r).remove(r)
	if !r.Queue.In() && r.Status != schedule.StatusPlanned && !r.CancelRequestedAt.IsZero() {
		l.cancelling.remove(r)
	}
	if k := l.keys[r.OverlapKey]; k != nil && isMember(r) {
		if k.remove(r); len(k.waiting.rows)+len(k.inFlight.rows) == 0 {
			delete(l.keys, r.OverlapKey)
		}
	}
}

// isMember reports whether an open row counts in its overlap group.
func isMember(r *schedule.Run) bool {
	return !r.IsJob() && (r.Status != schedule.StatusPlanned || !r.WaitingSince.IsZero())
}

// list is the one that a row is in.
func (l *living) list(r *schedule.Run) *ordered {
	switch {
	case r.Queue.In():
		return &l.queued
	case r.Status == schedule.StatusPlanned && r.WaitingSince.IsZero():
		return &l.planned
	case r.Status == schedule.StatusPlanned:
		return &l.waiting
	case r.Status == schedule.StatusLaunching:
		return &l.launching
	}
	return &l.started
}

// all are the living rows.
func (l *living) all() iter.Seq[*schedule.Run] {
	return eachOf(&l.planned, &l.waiting, &l.launching, &l.started, &l.queued)
}

func eachOf(lists ...*ordered) iter.Seq[*schedule.Run] {
	return func(yield func(*schedule.Run) bool) {
		for _, list := range lists {
			for _, r := range list.rows {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// due returns the rows that do not wait and fire at then or before.
func (l *living) due(then time.Time) []*schedule.Run {
	n, _ := slices.BinarySearchFunc(l.planned.rows, then, func(r *schedule.Run, then time.Time) int {
		if r.FireAt.After(then) {
			return 1
		}
		return -1
	})
	return l.planned.rows[:n]
}

// of returns the rows of an overlap key; never nil.
func (l *living) of(overlapKey string) *keyRows {
	if k := l.keys[overlapKey]; k != nil {
		return k
	}
	return &keyRows{}
}

func (k *keyRows) add(r *schedule.Run) {
	if r.Status == schedule.StatusPlanned {
		k.queue = slices.Insert(k.queue, k.waiting.add(r), *r)
		return
	}
	k.inFlight.add(r)
	if r.Exclusive {
		k.exclusive++
	}
}

func (k *keyRows) remove(r *schedule.Run) {
	if r.Status == schedule.StatusPlanned {
		if at := k.waiting.remove(r); at == 0 {
			k.queue = k.queue[1:] // the usual one; the others stay where they are
		} else {
			k.queue = slices.Delete(k.queue, at, at+1)
		}
		return
	}
	k.inFlight.remove(r)
	if r.Exclusive {
		k.exclusive--
	}
}

// ordered is a list of rows in a total order.
type ordered struct {
	rows []*schedule.Run
	less func(a, b *schedule.Run) int
}

func (o *ordered) add(r *schedule.Run) (at int) {
	if n := len(o.rows); n == 0 || o.less(o.rows[n-1], r) < 0 {
		o.rows = append(o.rows, r)
		return n
	}
	at, _ = slices.BinarySearchFunc(o.rows, r, o.less)
	o.rows = slices.Insert(o.rows, at, r)
	return at
}

func (o *ordered) remove(r *schedule.Run) (at int) {
	at, there := slices.BinarySearchFunc(o.rows, r, o.less)
	if !there {
		panic("memory: row " + r.Key.String() + " is not where its index says")
	}
	if at == 0 {
		o.rows[0] = nil
		o.rows = o.rows[1:]
	} else {
		o.rows = slices.Delete(o.rows, at, at+1)
	}
	return at
}
