package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// eventTables are events, inboxes and wake rows.
type eventTables struct {
	published map[eventID]*topic.Event // never changed
	bySeq     map[int64]*topic.Event
	lastSeq   int64
	inbox     map[entryID]topic.Entry
	wakeRows  map[string]time.Time // by schedule: when it is looked at
	taken     map[schedule.Key]batch
	states    map[string]*schedule.State // by schedule
}

func newEventTables() eventTables {
	return eventTables{
		published: make(map[eventID]*topic.Event), bySeq: make(map[int64]*topic.Event), inbox: make(map[entryID]topic.Entry),
		wakeRows: make(map[string]time.Time), taken: make(map[schedule.Key]batch),
		states: make(map[string]*schedule.State),
	}
}

type eventID struct {
	userID string
	topic.ID
}

type entryID struct {
	scheduleID string
	seq        int64
	round      int32
}

// batch is what a run has taken.
type batch struct {
	scheduleID   string
	root, digest schedule.Key
	count        int
}

// Publish writes events, and for each consumer that they match an inbox entry and a wake row.
func (s *Store) Publish(ctx context.Context, p *topic.Publication) (out []topic.Published, err error) {
	err = s.write(ctx, func(t *tx) error {
		out, err = t.publish(p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	return out, nil
}

func (t *tx) publish(p *topic.Publication) ([]topic.Published, error) {
	route := topic.RouteOf(p, t.subscriptions(p.UserID))
	if err := route.Refusal(p); err != nil {
		return nil, err
	}
	out := make([]topic.Published, len(p.Events))
	for i := range p.Events {
		e := p.Events[i]
		id := eventID{p.UserID, e.ID()}
		if earlier := t.published[id]; earlier != nil {
			var err error
			if out[i], err = topic.Repeated(p, &e, earlier); err != nil {
				return nil, err
			}
			continue
		}
		t.lastSeq++
		e.Seq, e.UserID, e.Time, e.PublishedAt, e.Fanout = t.lastSeq, p.UserID, at(e.Time), at(p.Now), len(route.Consumers[i])
		setUndone(t, t.published, id, &e)
		setUndone(t, t.bySeq, e.Seq, &e)
		if t.opts.Watch.Published != nil {
			t.told = append(t.told, func() { t.opts.Watch.Published(&e) })
		}
		for _, s := range route.Consumers[i] {
			entry := topic.Entry{ScheduleID: s.ScheduleID, Seq: e.Seq, Round: 1, State: topic.Pending, CreatedAt: at(p.Now)}
			if e.Loops() {
				entry.State, entry.Reason, entry.EndedAt = topic.Skipped, topic.ReasonLoop, at(p.Now)
			} else {
				t.wakeConsumer(s.ScheduleID, p.Now)
			}
			t.setEntry(entryID{s.ScheduleID, e.Seq, 1}, entry)
		}
		out[i] = topic.Published{Seq: e.Seq, Fanout: e.Fanout}
	}
	return out, nil
}

// subscriptions are those of an owner. A consumer's number is its place here.
func (s *Store) subscriptions(userID string) (found []topic.Subscription) {
	no := int32(0)
	for _, row := range s.schedules {
		if row.UserID != userID || !row.Alive() {
			continue
		}
		no++
		for _, text := range row.Consume.Topics {
			of := topic.Subscription{SID: no, ScheduleID: row.ScheduleID, OverlapKey: row.QualifiedOverlapKey(), Filter: row.Consume.Filter}
			of.Topic, of.Prefix = schedule.Subscription(text)
			found = append(found, of)
		}
	}
	return found
}

// wakeConsumer writes a wake row, unless there is an earlier one.
func (t *tx) wakeConsumer(scheduleID string, when time.Time) {
	if before, there := t.wakeRows[scheduleID]; there && !before.After(when) {
		return
	}
	t.setWake(scheduleID, when)
}

func (t *tx) setWake(scheduleID string, when time.Time) {
	t.setWakeRow(scheduleID, at(when))
	if s := t.schedules[scheduleID]; s != nil {
		t.noteSchedule(s, s)
	}
	t.wake = true
}

// subscribe has a consumer looked at whose definition was changed, or that was deleted.
func (t *tx) subscribe(before, after *schedule.Schedule, now time.Time) {
	if before != nil && !before.Alive() && after.Alive() { // created again: what waits is not for it
		setUndone(t, t.states, after.ScheduleID, nil)
		for id, entry := range t.inbox {
			if id.scheduleID == after.ScheduleID && entry.State == topic.Pending {
				entry.State, entry.Reason, entry.EndedAt = topic.Skipped, topic.ReasonDeleted, at(now)
				t.setEntry(id, entry)
			}
		}
	}
	if after.Consume.Any() || before != nil && before.Consume.Any() {
		t.setWake(after.ScheduleID, now)
	}
}

// wakesOf are the wake rows of some schedules, or of all.
func (s *Store) wakesOf(term schedule.Term, some map[string]bool) (found []ledger.Wake) {
	for id, when := range s.wakeRows {
		row := s.schedules[id]
		if row == nil || some != nil && !some[id] || !s.inShard(term, row.QualifiedOverlapKey()) {
			continue
		}
		found = append(found, wakeOf(row, when))
	}
	slices.SortFunc(found, func(a, b ledger.Wake) int { return cmp.Compare(a.ScheduleID, b.ScheduleID) })
	return found
}

func wakeOf(s *schedule.Schedule, when time.Time) ledger.Wake {
	w := ledger.Wake{ScheduleID: s.ScheduleID, OverlapKey: s.QualifiedOverlapKey(), FireAt: when, Priority: s.Priority}
	if s.Alive() {
		w.Pause = s.Pause
	}
	return w
}

// Take looks at consumers; see worker.FireStore.
func (s *Store) Take(ctx context.Context, req ledger.TakeRequest) (taken ledger.Taken, err error) {
	err = s.fenced(ctx, req.Term, func(t *tx) error {
		taken = ledger.Taken{}
		for _, id := range req.ScheduleIDs {
			if err := t.take(id, req.Now, &taken); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return ledger.Taken{}, fmt.Errorf("take events: %w", err)
	}
	return taken, nil
}

func (t *tx) take(id string, now time.Time, out *ledger.Taken) error {
	when, there := t.wakeRows[id]
	row := t.schedules[id]
	if !there || row == nil {
		out.Gone = append(out.Gone, id)
		return nil
	}
	c := ledger.Consumer{
		ScheduleID: id, Revision: row.Revision, Definition: &row.Definition, Deleted: !row.Alive(), Pause: row.Pause, FireAt: when,
	}
	c.Ready = t.ready(id, c.LookAt())
	look := ledger.LookNow(&c, now)
	for i := range look.Skip {
		t.changeEntry(id, &look.Skip[i], func(e *topic.Entry) { e.State, e.Reason, e.EndedAt = topic.Skipped, look.Reason, at(now) })
	}
	if len(look.Take) > 0 {
		run := ledger.EventsRun(&c, look.Take, now)
		for i := range look.Take {
			t.changeEntry(id, &look.Take[i], func(e *topic.Entry) {
				e.State, e.Run, e.OfferedAt = topic.Reserved, run.Key, either(e.OfferedAt, at(now))
			})
		}
		setUndone(t, t.taken, run.Key, batch{id, run.Key, topic.Digest(look.Take), len(look.Take)})
		if !t.insert(run, now) {
			return fmt.Errorf("run %s was there before", run.Key)
		}
		out.Runs = append(out.Runs, run)
	}
	out.Events, out.Skipped = out.Events+len(look.Take), out.Skipped+len(look.Skip)
	if look.Again.IsZero() {
		t.setWakeRow(id, time.Time{})
		out.Gone = append(out.Gone, id)
		return nil
	}
	t.setWakeRow(id, at(look.Again))
	out.Wakes = append(out.Wakes, wakeOf(row, at(look.Again)))
	return nil
}

// ready are the first pending events of a consumer.
func (t *tx) ready(scheduleID string, most int) (found []topic.Offered) {
	for id, entry := range t.inbox {
		if id.scheduleID == scheduleID && entry.State == topic.Pending {
			e := t.bySeq[id.seq]
			found = append(found, topic.Offered{Event: *e, Round: id.round, CreatedAt: entry.CreatedAt, Bytes: len(e.Data)})
		}
	}
	slices.SortFunc(found, bySeq)
	return found[:min(most, len(found))]
}

func bySeq(a, b topic.Offered) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Round, b.Round))
}

func (t *tx) changeEntry(scheduleID string, e *topic.Offered, change func(*topic.Entry)) {
	id := entryID{scheduleID, e.Seq, e.Round}
	entry := t.inbox[id]
	change(&entry)
	t.setEntry(id, entry)
}

// setWakeRow writes a wake row; the zero time deletes it.
func (t *tx) setWakeRow(scheduleID string, when time.Time) {
	setUndone(t, t.wakeRows, scheduleID, when)
	if t.opts.Watch.Wake != nil {
		t.told = append(t.told, func() { t.opts.Watch.Wake(scheduleID, when) })
	}
}

// setEntry writes an entry of an inbox; the zero value deletes it.
func (t *tx) setEntry(id entryID, entry topic.Entry) {
	before, there := t.inbox[id]
	setUndone(t, t.inbox, id, entry)
	if t.opts.Watch.Entry == nil {
		return
	}
	of := func(e topic.Entry, is bool) *topic.Entry {
		if !is {
			return nil
		}
		return &e
	}
	t.told = append(t.told, func() { t.opts.Watch.Entry(t.term, of(before, there), of(entry, entry != topic.Entry{})) })
}

// endHandlers ends the events of runs that are over, or gives them to the runs that follow.
func (t *tx) endHandlers() error {
	for _, r := range t.ended {
		if err := t.writeCommit(r, t.commits[r.Key]); err != nil {
			return err
		}
	}
	for _, r := range t.ended {
		b, took := t.taken[r.Key]
		if !took {
			continue
		}
		now := r.CompletedAt
		end := ledger.EventsAfter(r, t.follows[r.Key], now)
		for id, entry := range t.inbox {
			if entry.Run != r.Key || entry.State != topic.Reserved {
				continue
			}
			entry.Attempts += end.Failed
			switch end.To {
			case topic.Reserved:
				entry.Run = end.Next
			case topic.Pending:
				entry.State, entry.Run = topic.Pending, schedule.Key{}
			default:
				entry.State, entry.Reason, entry.EndedAt = end.To, end.Reason, at(now)
			}
			t.setEntry(id, entry)
		}
		if !end.Next.IsZero() {
			setUndone(t, t.taken, end.Next, b)
		}
		if !end.WakeAt.IsZero() {
			t.wakeConsumer(b.scheduleID, end.WakeAt)
		}
	}
	return nil
}
