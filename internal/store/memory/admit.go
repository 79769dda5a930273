package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Admit admits runs of a queue; see dispatch.Store. The mutex keeps others out.
func (s *Store) Admit(ctx context.Context, req schedule.AdmitRequest) (out ledger.Dispatched, err error) {
	err = s.write(ctx, func(t *tx) error {
		out.Alone = true
		q := t.queueOf(req.QueueNo)
		if q == nil {
			return nil
		}
		facts := t.queueFacts(q)
		if req.Fetch != nil {
			if err := t.readFetch(&facts, &req); err != nil {
				return err
			}
		}
		if facts.Room(&req) > 0 {
			facts.Heads = t.heads(req.QueueNo)
			facts.Oldest = facts.Heads // all runs
		}
		t.limitsNow(&facts, req.Now)
		choice := ledger.ChooseRuns(&req, &facts)
		var found []ledger.WaitingFacts
		for _, key := range choice.Keys() {
			found = append(found, t.waitingFacts(t.runs[key], &req))
		}
		out = ledger.AdmitRuns(&req, &facts, choice, found)
		out.Alone = true
		t.writeDispatched(&req, &out)
		return nil
	})
	if err != nil {
		return ledger.Dispatched{}, fmt.Errorf("admit runs of queue %d: %w", req.QueueNo, err)
	}
	return out, nil
}

func (s *Store) queueFacts(q *schedule.Queue) ledger.QueueFacts {
	f := ledger.QueueFacts{
		Queue: q, Stall: s.stalls[q.No], NextStart: s.queueStarts[q.No], InFlight: len(s.ofQueue(q.No, schedule.QueueDispatching, schedule.QueueRunning)),
		Reserved: s.reservationsOf(q.No),
	}
	f.Stall.QueueNo = q.No
	return f
}

// heads are all waiting runs, by limit set.
func (s *Store) heads(queueNo int32) (heads []ledger.Head) {
	at := make(map[string]int)
	for _, r := range s.waiting(queueNo) {
		w := ledger.Waiting(r)
		if _, known := at[w.Set]; !known {
			at[w.Set] = len(heads)
			heads = append(heads, ledger.Head{})
		}
		h := &heads[at[w.Set]]
		h.Runs = append(h.Runs, w)
	}
	return heads
}

func (t *tx) waitingFacts(r *schedule.Run, req *schedule.AdmitRequest) ledger.WaitingFacts {
	w := ledger.WaitingFacts{Run: *r}
	if w.Definition = t.definitionOf(r); w.Definition != nil {
		w.Grant = t.grants[w.Definition.GrantUse(req.RequireGrant).Ref()]
	}
	return w
}

// definitionOf is a copy of the definition of a run's revision; nil: there is none.
func (t *tx) definitionOf(r *schedule.Run) *schedule.Definition {
	v := t.revisions[revisionID{r.ScheduleID, r.Revision}]
	if v == nil {
		return nil
	}
	d := v.Definition
	return &d
}

func (t *tx) writeDispatched(req *schedule.AdmitRequest, out *ledger.Dispatched) {
	for i := range out.Ended {
		t.settle(&out.Ended[i], req.Now)
	}
	if out.Stall != nil {
		t.writeStalls([]schedule.StallChange{*out.Stall})
	}
	t.writeReservations(&out.Reserved)
	t.writeUses(req.QueueNo, out)
	t.moveClocks(req.QueueNo, out.Clocks)
	for i := range out.Dispatches {
		d := &out.Dispatches[i]
		r := t.runs[d.Run.Key]
		if req.Fetch != nil {
			t.change(r, func(r *schedule.Run) { *r = d.Run })
			key := d.Begun.Request
			key.Lease = schedule.KeyLease{}
			t.hold(r, key, req.Now)
			t.setDue(r.Key, d.Due)
			continue
		}
		t.change(r, func(r *schedule.Run) {
			r.Enter(schedule.StatusLaunching)
			r.Queue.AdmittedAs = d.Run.Queue.AdmittedAs
			r.Deliveries, r.ClaimedAt, r.TimeoutAt, r.ClaimedUntil, r.UpdatedAt = d.Run.Deliveries, d.Run.ClaimedAt, d.Run.TimeoutAt, time.Time{}, at(req.Now)
		})
		t.hold(r, d.Begun.Request, req.Now)
	}
}

// PutBack lets admitted runs wait again that the executor certainly does not have, and writes
// stalls; see dispatch.Store.
func (s *Store) PutBack(ctx context.Context, backs []schedule.PutBack, stalls []schedule.StallChange, now time.Time) (put []bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		put = make([]bool, len(backs))
		for i := range backs {
			r := t.runs[backs[i].Key]
			if r == nil {
				continue
			}
			after, ok := ledger.PutBack(*r, t.leases[r.Key], &backs[i], now)
			if put[i] = ok; ok {
				t.change(r, func(r *schedule.Run) { *r = after })
			}
		}
		t.writeStalls(stalls)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("let %d runs wait again: %w", len(backs), err)
	}
	return put, nil
}

func (t *tx) writeStalls(stalls []schedule.StallChange) {
	for _, s := range stalls {
		before := t.stalls[s.QueueNo]
		s.Until = at(s.Until)
		t.stalls[s.QueueNo] = s.QueueStall
		t.undo = append(t.undo, func() { t.stalls[s.QueueNo] = before })
		if s.Event != nil {
			t.noteQueue(*s.Event)
		}
	}
}

// SweepQueues looks at the runs of queues that are due; see dispatch.Store.
func (s *Store) SweepQueues(ctx context.Context, req schedule.QueueSweep) (out ledger.SweptQueues, err error) {
	err = s.write(ctx, func(t *tx) error {
		out = ledger.SweptQueues{}
		more := t.sweepGroups(req.Now) // first: the retries of what ends below are inserted last
		for _, r := range t.live.queued.rows {
			if !r.Queue.State.Admitted() && t.queueOf(r.Queue.No).DeletedAt.After(req.DeletedSince) {
				t.setDue(r.Key, req.Now)
			}
		}
		t.freeOfGone(req.Now)
		req.Seen = t.seen()
		due := t.dueInQueues(req.Now)
		out.More = more || len(due) >= req.Limit
		for _, r := range due[:min(len(due), req.Limit)] {
			after, due, ends := out.Add(&req, *r, t.leases[r.Key], t.definitionOf(r), t.queueOf(r.Queue.No))
			t.drawFair(req.Now, &after)
			if ends || after.Queue.State != r.Queue.State || !after.ClaimedUntil.Equal(r.ClaimedUntil) {
				t.change(r, func(r *schedule.Run) { *r = after })
			}
			if ends {
				setUndone(t, t.leases, r.Key, schedule.KeyLease{})
				out.Ended[len(out.Ended)-1].Run = *r
				if r.Status == schedule.StatusCancelled && out.Ended[len(out.Ended)-1].Before.InFlight() {
					t.note(r.ScheduleID, []schedule.Event{ledger.CancelTimedOut(r)}, req.Now)
				}
				continue
			}
			t.setDue(r.Key, due)
		}
		out.NextDue = t.nextInQueues()
		t.sweepReservations(&req, &out)
		if req.Orphans {
			out.Orphans = t.dropOrphanUses()
		}
		return nil
	})
	if err != nil {
		return ledger.SweptQueues{}, fmt.Errorf("sweep queues: %w", err)
	}
	return out, nil
}

// dueOf is when a run of a queue is due; zero: never. A sweep has said when to look again, unless
// the run has changed since.
func (s *Store) dueOf(r *schedule.Run) time.Time {
	if due, swept := s.queuedDue[r.Key]; swept {
		return due
	}
	due := ledger.DueAt(r)
	if lease := s.leases[r.Key].Until; r.Queue.State == schedule.QueueDispatching && !lease.IsZero() && lease.Before(due) {
		return lease
	}
	return due
}

func (t *tx) setDue(key schedule.Key, due time.Time) {
	before, swept := t.queuedDue[key]
	t.queuedDue[key] = due
	t.undo = append(t.undo, func() {
		if t.queuedDue[key] = before; !swept {
			delete(t.queuedDue, key)
		}
	})
}

// dueInQueues returns the runs of all queues that are due, the first one first.
func (t *tx) dueInQueues(now time.Time) (runs []*schedule.Run) {
	for _, r := range t.live.queued.rows {
		if due := t.dueOf(r); !due.IsZero() && !due.After(now) {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *schedule.Run) int {
		return cmp.Or(t.dueOf(a).Compare(t.dueOf(b)), slices.Compare(a.Key[:], b.Key[:]))
	})
	return runs
}

// nextInQueues is when the next run of a queue is due; zero: none ever is.
func (t *tx) nextInQueues() (next time.Time) {
	for _, r := range t.live.queued.rows {
		if due := t.dueOf(r); !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next
}
