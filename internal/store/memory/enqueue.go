package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

type enqueueID struct {
	queueNo           int32
	userID, requestID string
}

type enqueueRecord struct {
	schedule.EnqueueRecord
	createdAt time.Time
}

// Enqueue puts runs into a queue as decide says, in one transaction: all or none.
func (s *Store) Enqueue(ctx context.Context, req schedule.EnqueueRequest, decide func(schedule.EnqueueFacts) (schedule.Enqueue, error)) error {
	err := s.write(ctx, func(t *tx) error {
		if err := t.useTemplates(&req); err != nil {
			return err
		}
		facts, id := t.enqueueFacts(&req)
		decided, err := decide(facts)
		if err != nil || decided.Empty() {
			return err
		}
		runs := slices.Clone(decided.Runs)
		if !t.placeRuns(runs, req.Position) {
			t.drawFair(decided.Now, schedule.Pointers(runs)...)
		}
		group := decided.Group
		if group != nil {
			group = t.putGroup(*group)
			for i := range runs {
				runs[i].Queue.GroupNo = group.No
			}
		}
		record := enqueueRecord{createdAt: at(decided.Now)}
		record.BodyHash, record.Marks, record.Keys = decided.BodyHash, decided.Marks, decided.Answer()
		for i := range runs {
			if t.schedules[runs[i].ScheduleID] == nil {
				return fmt.Errorf("insert a run of schedule %s: %w", runs[i].ScheduleID, schedule.ErrNotFound)
			}
			t.insert(runs[i], decided.Now)
			if old := t.runs[runs[i].RetryOf]; old != nil && old.IsDead() { // of a group
				t.change(old, func(r *schedule.Run) { r.Dead = new(bool) })
			}
		}
		if err := t.writeUniques(&decided); err != nil {
			return err
		}
		if req.RequestID != "" {
			t.enqueued[id] = record
			t.undo = append(t.undo, func() { delete(t.enqueued, id) })
		}
		if group != nil {
			row := *group
			t.settleGroup(&row, false, decided.Now)
		}
		t.audit(decided.Audit, decided.Now)
		return nil
	})
	if err != nil {
		return fmt.Errorf("put runs into queue %s: %w", schedule.Quote(req.QueueID), err)
	}
	return nil
}

func (t *tx) enqueueFacts(req *schedule.EnqueueRequest) (facts schedule.EnqueueFacts, id enqueueID) {
	if q := t.queues[req.QueueID]; q != nil {
		copied := *q
		facts.Queue, id = &copied, enqueueID{q.No, req.UserID, req.RequestID}
		if there, ok := t.enqueued[id]; ok && req.RequestID != "" {
			facts.Earlier = &there.EnqueueRecord
		}
	}
	if g := t.jobGroups[req.GroupID]; g != nil {
		copied := *g
		facts.Group, facts.GroupOpen = &copied, t.firstMember(g.No) != nil
	}
	if facts.Queue != nil {
		facts.Uniques = t.uniqueFacts(facts.Queue.No, req.Uniques)
	}
	return facts, id
}

// placeRuns gives runs their positions: at the end, or from a place on among those that wait
// with their priority. placed: they have the fair order of such a place.
func (t *tx) placeRuns(runs []schedule.Run, position int) (placed bool) {
	if len(runs) == 0 {
		return false
	}
	waiting := slices.DeleteFunc(t.waiting(runs[0].Queue.No), func(r *schedule.Run) bool { return r.Queue.Priority != runs[0].Queue.Priority })
	if position > 0 && position <= len(waiting) {
		t.insertAt(runs, waiting, position-1)
		return true
	}
	for i, position := range t.lastPositions(len(runs)) {
		runs[i].Queue.Position = position
	}
	return false
}

// lastPositions draws positions behind all others.
func (t *tx) lastPositions(n int) (positions []int64) {
	before := t.position
	t.undo = append(t.undo, func() { t.position = before })
	for range n {
		t.position++
		positions = append(positions, ledger.PositionKey(t.position))
	}
	return positions
}

// insertAt gives runs the fair order of the run at a place: only runs with that one count and move.
func (t *tx) insertAt(runs []schedule.Run, waiting []*schedule.Run, place int) {
	order := waiting[place].Queue.FairOrder
	for i := range runs {
		runs[i].Queue.FairOrder = order
	}
	isOther := func(r *schedule.Run) bool { return r.Queue.FairOrder != order }
	place -= len(slices.DeleteFunc(slices.Clone(waiting[:place]), func(r *schedule.Run) bool { return !isOther(r) }))
	waiting = slices.DeleteFunc(waiting, isOther)
	before := ledger.NoPlace
	if place > 0 {
		before = waiting[place-1].Queue.Position
	}
	rest := []*schedule.Run(nil)
	positions, fits := ledger.Between(before, waiting[place].Queue.Position, len(runs))
	if !fits {
		rest = waiting[place:]
		positions, fits = ledger.Between(before, rest[len(rest)-1].Queue.Position+1, len(runs)+len(rest))
	}
	if !fits {
		positions = t.lastPositions(len(runs) + len(rest))
	}
	for i := range runs {
		runs[i].Queue.Position = positions[i]
	}
	for i, r := range rest {
		t.change(r, func(r *schedule.Run) { r.Queue.Position = positions[len(runs)+i] })
	}
}

// ofQueue returns the open runs of a queue, in its order.
func (s *Store) ofQueue(queueNo int32, states ...schedule.QueueState) (runs []*schedule.Run) {
	for _, r := range s.live.queued.rows {
		if r.Queue.No == queueNo && slices.Contains(states, r.Queue.State) {
			runs = append(runs, r)
		}
	}
	return runs
}

func (s *Store) waiting(queueNo int32) []*schedule.Run {
	return s.ofQueue(queueNo, schedule.QueueWaiting)
}

// CountQueue counts the open runs of a queue, each kind up to limit.
func (s *Store) CountQueue(ctx context.Context, queueNo int32, limit int) (c schedule.QueueCounts, err error) {
	err = s.read(ctx, func() error {
		waiting := s.waiting(queueNo)
		c.Delayed, c.Waiting = min(limit, len(s.ofQueue(queueNo, schedule.QueueDelayed))), min(limit, len(waiting))
		c.Chained = min(limit, len(s.ofQueue(queueNo, schedule.QueueChained)))
		c.InFlight = min(limit, len(s.ofQueue(queueNo, schedule.QueueDispatching, schedule.QueueRunning)))
		c.Stall = s.stalls[queueNo]
		for _, r := range s.reservationsOf(queueNo) {
			if r.Granted() {
				c.Reserved++
			} else {
				c.Reserving++
			}
		}
		for _, r := range waiting {
			if since := schedule.Later(r.Queue.EnqueuedAt, r.FireAt); c.WaitingSince.IsZero() || since.Before(c.WaitingSince) {
				c.WaitingSince = since
			}
		}
		return nil
	})
	return c, err
}

// PositionOf returns the place of a waiting run in its queue and priority, at most limit.
func (s *Store) PositionOf(ctx context.Context, run *schedule.Run, limit int) (position int, err error) {
	if run.Queue.State != schedule.QueueWaiting {
		return 0, nil
	}
	err = s.read(ctx, func() error {
		for _, r := range s.waiting(run.Queue.No) {
			if r.Queue.Priority == run.Queue.Priority && byQueueOrder(r, run) <= 0 {
				position++
			}
		}
		return nil
	})
	return min(position, limit), err
}

// ReadWaitingPlace reads what explains a run that waits in a queue.
func (s *Store) ReadWaitingPlace(ctx context.Context, run *schedule.Run, counted, users int, now time.Time) (p ledger.WaitingPlace, err error) {
	err = s.read(ctx, func() error {
		q := s.queueOf(run.Queue.No)
		if q == nil {
			return nil
		}
		p.QueueFacts = s.queueFacts(q)
		p.Heads = []ledger.Head{{Runs: []ledger.WaitingRun{ledger.Waiting(run)}}}
		if q.Pulled() {
			if workers := s.workersOf(q.No); len(workers) > 0 { // the last one first
				p.LastFetch = workers[0].SeenAt
			}
		}
		s.limitsNow(&p.QueueFacts, now)
		admitted := s.ofQueue(run.Queue.No, schedule.QueueDispatching, schedule.QueueRunning)
		slices.SortFunc(admitted, func(a, b *schedule.Run) int {
			return cmp.Or(a.ClaimedAt.Compare(b.ClaimedAt), bytes.Compare(a.Key[:], b.Key[:]))
		})
		for _, r := range admitted[:min(users, len(admitted))] {
			p.Flights = append(p.Flights, r.Key)
		}
		for _, r := range s.waiting(run.Queue.No) {
			if r.Queue.Priority < run.Queue.Priority {
				p.Before++
			}
		}
		p.Before = min(p.Before, counted)
		p.Turns = s.turnsBefore(q, run, counted)
		p.Uses = make(map[schedule.LimitRef][]schedule.Key)
		for ref, l := range p.Limits {
			for _, u := range s.usesOf(l.No) {
				if u.Key == ref.Key && len(p.Uses[ref]) < users {
					p.Uses[ref] = append(p.Uses[ref], u.UsedBy)
				}
			}
		}
		return nil
	})
	return p, err
}

// QueueID returns the id of a queue by its number; "": there is none.
func (s *Store) QueueID(ctx context.Context, queueNo int32) (id string, err error) {
	err = s.read(ctx, func() error {
		if q := s.queueOf(queueNo); q != nil {
			id = q.QueueID
		}
		return nil
	})
	return id, err
}

func (s *Store) queueOf(queueNo int32) *schedule.Queue {
	for _, q := range s.queues {
		if q.No == queueNo {
			return q
		}
	}
	return nil
}

// QueuesWaiting returns the queues in which runs wait for their admission.
func (s *Store) QueuesWaiting(ctx context.Context) (queues []schedule.QueueNow, err error) {
	err = s.read(ctx, func() error {
		for _, r := range s.live.queued.rows {
			if r.Queue.State != schedule.QueueWaiting || len(queues) > 0 && queues[len(queues)-1].No == r.Queue.No {
				continue
			}
			if q := s.queueOf(r.Queue.No); q.DeletedAt.IsZero() {
				queues = append(queues, schedule.QueueNow{No: q.No, QueueID: q.QueueID})
			}
		}
		return nil
	})
	return queues, err
}

// ListWaiting lists the runs of a queue that are not admitted, in its order.
func (s *Store) ListWaiting(ctx context.Context, f schedule.WaitingFilter) (runs []schedule.Run, err error) {
	err = s.read(ctx, func() error {
		delayed := s.ofQueue(f.QueueNo, schedule.QueueDelayed)
		slices.SortFunc(delayed, schedule.ByFireAt)
		chained := s.ofQueue(f.QueueNo, schedule.QueueChained)
		slices.SortFunc(chained, func(a, b *schedule.Run) int {
			return cmp.Or(cmp.Compare(a.Queue.Position, b.Queue.Position), bytes.Compare(a.Key[:], b.Key[:]))
		})
		all := slices.Concat(s.waiting(f.QueueNo), delayed, chained)
		for _, r := range all[min(f.Offset, len(all)):] {
			if len(runs) < schedule.PageSize(f.Limit) {
				runs = append(runs, *r)
			}
		}
		return nil
	})
	return runs, err
}

// ChangeQueued changes a run that waits in a queue, as decide says, and returns the run after
// it. The input of one that was admitted before stays.
func (s *Store) ChangeQueued(ctx context.Context, key schedule.Key, decide func(*schedule.Run) (schedule.QueuedChange, error)) (after *schedule.Run, err error) {
	err = s.write(ctx, func(t *tx) error {
		run := t.runs[key]
		if run == nil || run.Status.Terminal() {
			return schedule.ErrNotFound
		}
		row := *run
		change, err := decide(&row)
		if after = &row; err != nil || change.Run == nil {
			return err
		}
		after = change.Run
		after.UpdatedAt = at(change.Now)
		if ledger.DrawsAgain(run, after) {
			t.drawFair(change.Now, after)
		}
		if err := t.writeQueued(after, change.Now); err != nil {
			return err
		}
		t.audit(change.Audit, change.Now)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("change run %s: %w", key, err)
	}
	return after, nil
}

// writeQueued writes what may change of a run that waits, unless it was admitted.
func (t *tx) writeQueued(after *schedule.Run, now time.Time) error {
	run := t.runs[after.Key]
	if run == nil || run.Status.Terminal() || run.Queue.State.Admitted() ||
		!run.ClaimedAt.IsZero() && (string(run.Input) != string(after.Input) || run.Queue.Limits != after.Queue.Limits) {
		return ledger.ErrAdmitted
	}
	t.change(run, func(r *schedule.Run) {
		r.Input, r.Priority, r.RunAt, r.FireAt, r.UpdatedAt = clone(after.Input), after.Priority, at(after.RunAt), at(after.FireAt), at(now)
		r.StartBy = at(after.StartBy)
		r.Queue.FairKey, r.Queue.FairOrder = after.Queue.FairKey, after.Queue.FairOrder
		r.Queue.Priority, r.Queue.State, r.Queue.Limits = after.Queue.Priority, after.Queue.State, after.Queue.Limits
	})
	t.queued = true
	return nil
}

// MeasureQueues returns up to limit queues, by queue_id, with their runs counted up to counted.
func (s *Store) MeasureQueues(ctx context.Context, limit, counted int, now time.Time) ([]schedule.QueueMeasure, error) {
	queues, err := s.ListQueues(ctx, schedule.QueueFilter{Limit: limit})
	if err != nil {
		return nil, err
	}
	measures := make([]schedule.QueueMeasure, len(queues))
	for i := range queues {
		m := &measures[i]
		m.Queue = queues[i]
		if m.QueueCounts, err = s.CountQueue(ctx, m.No, counted); err != nil {
			return nil, err
		}
		if m.Pace, err = s.QueuePace(ctx, m.No, now, min(counted, schedule.PacedRows)); err != nil {
			return nil, err
		}
		err = s.read(ctx, func() error {
			if m.Pulled() {
				m.Workers = s.workersOf(m.No)
			}
			m.Dead = s.deadIn(m.No, m.Expect.CountsDead())
			return nil
		})
	}
	return measures, err
}
