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

// backfill is a row of backfills, with its rows of backfill_runs.
type backfill struct {
	schedule.Backfill
	lookedAt time.Time
	slots    map[int64]schedule.BackfillSlot // by run_at
}

// putBackfill writes one backfill's row and slots.
func (t *tx) putBackfill(b *schedule.Backfill, slots []schedule.BackfillSlot, lookedAt time.Time) {
	before := t.backfills[b.BackfillID]
	row := &backfill{Backfill: *b, lookedAt: lookedAt, slots: make(map[int64]schedule.BackfillSlot)}
	for _, at := range []*time.Time{&row.From, &row.To, &row.Cursor, &row.NextAt, &row.CreatedAt, &row.UpdatedAt, &row.EndedAt} {
		if !at.IsZero() {
			*at = at.UTC().Truncate(time.Microsecond)
		}
	}
	row.Waiting, row.InFlight = 0, 0
	if before != nil {
		for at, slot := range before.slots {
			row.slots[at] = slot
		}
	}
	for _, slot := range slots {
		slot.Run = nil
		row.slots[slot.RunAt.UnixMicro()] = slot
	}
	t.backfills[b.BackfillID] = row
	if t.opts.Watch.Backfill != nil {
		var was *schedule.Backfill
		if before != nil {
			was = &before.Backfill
		}
		after := row.Backfill
		t.told = append(t.told, func() { t.opts.Watch.Backfill(t.term, was, &after, slots) })
	}
	t.undo = append(t.undo, func() {
		if t.backfills[b.BackfillID] = before; before == nil {
			delete(t.backfills, b.BackfillID)
		}
	})
}

// unsettled returns the slots with an uncounted end, oldest first.
func (b *backfill) unsettled() []schedule.BackfillSlot {
	var slots []schedule.BackfillSlot
	for _, slot := range b.slots {
		if !slot.Settled {
			slots = append(slots, slot)
		}
	}
	slices.SortFunc(slots, func(a, b schedule.BackfillSlot) int { return a.RunAt.Compare(b.RunAt) })
	return slots
}

// shown is a backfill with the runs that are not counted in its row.
func (s *Store) shown(b *backfill) schedule.Backfill {
	out := b.Backfill
	for _, slot := range b.unsettled() {
		if run := s.runs[slot.Key]; run == nil {
			out.Count("", "", 1)
		} else {
			out.Count(run.Status, run.Reason, 1)
		}
	}
	return out
}

// GetBackfill returns one backfill with its current counts.
func (s *Store) GetBackfill(ctx context.Context, backfillID string) (found *schedule.Backfill, err error) {
	err = s.read(ctx, func() error {
		row := s.backfills[backfillID]
		if row == nil {
			return schedule.ErrNotFound
		}
		shown := s.shown(row)
		found = &shown
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("get backfill %s: %w", backfillID, err)
	}
	return found, nil
}

// ListBackfills returns backfills, newest first.
func (s *Store) ListBackfills(ctx context.Context, f schedule.BackfillFilter) (list []schedule.Backfill, err error) {
	newest := func(aAt, bAt time.Time, aID, bID string) int { return cmp.Or(bAt.Compare(aAt), cmp.Compare(bID, aID)) }
	err = s.read(ctx, func() error {
		for _, b := range s.backfills {
			switch {
			case f.ScheduleID != "" && b.ScheduleID != f.ScheduleID, f.UserID != "" && b.UserID != f.UserID, f.State != "" && b.State != f.State,
				!f.BeforeAt.IsZero() && newest(f.BeforeAt, b.CreatedAt, f.BeforeID, b.BackfillID) >= 0:
			default:
				list = append(list, s.shown(b))
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b schedule.Backfill) int { return newest(a.CreatedAt, b.CreatedAt, a.BackfillID, b.BackfillID) })
	return list[:min(len(list), schedule.PageSize(f.Limit))], err
}

// SlotStates returns the state of the given slots, in their order.
func (s *Store) SlotStates(ctx context.Context, scheduleID string, slots []time.Time) (out []schedule.SlotState, err error) {
	err = s.read(ctx, func() error {
		out = s.standings(scheduleID, slots)
		return nil
	})
	return out, err
}

func (s *Store) standings(scheduleID string, slots []time.Time) []schedule.SlotState {
	out := make([]schedule.SlotState, len(slots))
	place := make(map[int64]int, len(slots))
	for i, slot := range slots {
		place[slot.UnixMicro()] = i
	}
	for _, r := range s.runs {
		i, wanted := place[r.RunAt.UnixMicro()]
		if !wanted || r.ScheduleID != scheduleID || r.Trigger == schedule.TriggerManual {
			continue
		}
		out[i].Rows = true
		switch {
		case !r.Status.Terminal():
			out[i].OnWay = true
		case r.Status == schedule.StatusSuccess:
			out[i].Success = true
		case r.Status == schedule.StatusFailed:
			out[i].Failed = true
		}
	}
	return out
}

// ChangeBackfill hands one backfill, or that there is none, to decide with its
// schedule, and writes what it says.
func (s *Store) ChangeBackfill(ctx context.Context, ref schedule.BackfillRef, decide func(schedule.BackfillInput) (schedule.BackfillChange, error)) (after *schedule.Backfill, err error) {
	var refused error
	err = s.write(ctx, func(t *tx) error {
		change, err := decide(s.backfillInput(ref))
		if err != nil {
			refused = err
			return err
		}
		t.wake = true
		if change.Row != nil {
			t.putBackfill(change.Row, nil, at(change.Now))
			t.changeRunsOf(t.backfills[ref.BackfillID], &change)
			t.note(ref.ScheduleID, change.Events, change.Now)
			t.audit(change.Audit, change.Now)
		}
		row := t.backfills[ref.BackfillID]
		if row == nil {
			return schedule.ErrNotFound
		}
		shown := s.shown(row)
		after = &shown
		return nil
	})
	switch {
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, fmt.Errorf("change backfill %s: %w", ref.BackfillID, err)
	}
	return after, nil
}

func (s *Store) backfillInput(ref schedule.BackfillRef) (in schedule.BackfillInput) {
	owner := ""
	if row := s.schedules[ref.ScheduleID]; row != nil {
		in.Schedule, owner = copyOf(row), row.UserID
		in.InFlight = s.inFlight(row.QualifiedOverlapKey())
	}
	for id, b := range s.backfills {
		switch {
		case id == ref.BackfillID:
			row := b.Backfill // unmodified, because it is written again
			in.Backfill = &row
		case b.State.Ended():
		default:
			if b.ScheduleID == ref.ScheduleID {
				in.OfSchedule++
			}
			if b.UserID == owner {
				in.OfOwner++
			}
		}
	}
	return in
}

func (t *tx) changeRunsOf(b *backfill, c *schedule.BackfillChange) {
	for _, slot := range b.unsettled() {
		r := t.runs[slot.Key]
		switch {
		case r == nil:
		case r.Status == schedule.StatusPlanned && c.DropPlanned:
			t.noteRun(runEnded, r)
			t.remove(r)
		case r.Status == schedule.StatusPlanned && c.EndPlanned != "":
			t.settle(&schedule.Settlement{Key: r.Key, To: schedule.StatusCancelled, Reason: c.EndPlanned, CompletedAt: c.Now}, c.Now)
		case c.AskCancel != "":
			t.askCancel(r, c.AskCancel, c.Now)
		}
	}
}

// FeedBackfills hands the backfills that are not done to feeder and writes its
// decisions.
func (s *Store) FeedBackfills(ctx context.Context, req schedule.FeedRequest, feeder schedule.BackfillFeeder) (out schedule.FeedResult, err error) {
	err = s.fenced(ctx, req.Term, func(t *tx) error {
		candidates, pending := t.feedCandidates(req)
		for i := range candidates {
			c := &candidates[i]
			c.Slots = feeder.Window(c)
			c.SlotStates = s.standings(c.Backfill.ScheduleID, c.Slots)
		}
		out = schedule.FeedResult{Candidates: len(candidates)}
		if len(candidates) == 0 {
			return nil
		}
		out.Decisions = feeder.Decide(candidates, pending)
		for i := range out.Decisions {
			d := &out.Decisions[i]
			t.putBackfill(&d.Backfill, d.Slots, at(req.Now))
			for _, row := range d.Rows {
				if t.insert(row, req.Now) {
					out.Inserted++
				}
			}
			t.note(d.Backfill.ScheduleID, d.Events, req.Now)
			out.More = out.More || d.More
		}
		return nil
	})
	if err != nil {
		return schedule.FeedResult{}, fmt.Errorf("feed backfills: %w", err)
	}
	return out, nil
}

func (t *tx) feedCandidates(req schedule.FeedRequest) (candidates []schedule.BackfillCandidate, pending int) {
	var open []*backfill
	for _, b := range t.backfills {
		if b.Open && t.inShard(req.Term, b.OverlapKey) {
			open = append(open, b)
		}
	}
	slices.SortFunc(open, func(a, b *backfill) int {
		return cmp.Or(a.lookedAt.Compare(b.lookedAt), cmp.Compare(a.BackfillID, b.BackfillID))
	})
	for i, b := range open {
		c := schedule.BackfillCandidate{Backfill: b.Backfill, Unsettled: b.unsettled(), Busy: b.OverlapPolicy.Exclusive() && t.group(b.OverlapKey).BusyUntil(req.Now.Add(req.Ahead))}
		for j := range c.Unsettled {
			run := t.runs[c.Unsettled[j].Key]
			if run == nil {
				continue
			}
			row := *run
			c.Unsettled[j].Run = &row
			if row.Status == schedule.StatusPlanned || row.Status == schedule.StatusLaunching {
				pending++
			}
		}
		if i >= req.Limit {
			continue // counted only
		}
		if row := t.schedules[b.ScheduleID]; row != nil {
			c.Schedule = copyOf(row)
		}
		if v := t.revisions[revisionID{b.ScheduleID, b.Revision}]; v != nil {
			d := v.Definition
			c.Definition = &d
		}
		candidates = append(candidates, c)
	}
	return candidates, pending
}

// group is an overlap group as it is now.
func (t *tx) group(overlapKey string) (now ledger.GroupNow) {
	k := t.live.of(overlapKey)
	now.Occupied = len(k.inFlight.rows)+len(k.waiting.rows) > 0
	for _, r := range t.live.planned.rows {
		if r.OverlapKey == overlapKey && r.Exclusive {
			now.NextFireAt = r.FireAt
			break // the others fire later
		}
	}
	return now
}

func (t *tx) pruneBackfills(before time.Time, limit int) (pruned int) {
	var old []*backfill
	for _, b := range t.backfills {
		if !b.Open && !b.EndedAt.IsZero() && b.EndedAt.Before(before) {
			old = append(old, b)
		}
	}
	slices.SortFunc(old, func(a, b *backfill) int { return a.EndedAt.Compare(b.EndedAt) })
	for _, b := range old[:min(len(old), limit)] {
		delete(t.backfills, b.BackfillID)
		pruned += 1 + len(b.slots)
	}
	return pruned
}
