package registrar

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/work"
)

// slotStatesAt is how many slots' standings are read at once.
const slotStatesAt = 5000

// slotStateSteps is the cost of reading one slot's standing.
const slotStateSteps = 8 * work.PerMicrosecond

// Backfill requests runs for a range of past slots, also of a paused or exhausted schedule. It
// counts the slots; the leader inserts them in portions. A repeat of the request returns the
// backfill's current state.
func (r *Registrar) Backfill(ctx context.Context, in BackfillInput) (BackfillResult, error) {
	in.RequestID = orDefault(in.RequestID, rand.Text())
	hash := backfillHash(&in) // of the request as sent, before the defaults
	if err := r.checkBackfill(&in); err != nil {
		return BackfillResult{}, err
	}
	var err error
	if in.ScheduleID, err = r.ScheduleID(ctx, in.ScheduleID); err != nil {
		return BackfillResult{}, err
	}
	id := schedule.BackfillID(in.ScheduleID, in.RequestID)
	if !in.DryRun {
		if known, err := r.askedBackfill(ctx, id, in.RequestID, hash); known != nil || err != nil {
			return BackfillResult{Backfill: known}, err
		}
	}
	s, err := r.schedules.GetSchedule(ctx, in.ScheduleID)
	switch {
	case errors.Is(err, schedule.ErrNotFound) || err == nil && !s.Alive():
		return BackfillResult{}, notFound(in.ScheduleID)
	case err != nil:
		return BackfillResult{}, err
	}
	now := r.now()
	if in.To.IsZero() {
		in.To = now
	}
	if err := r.checkRange(&in, s, now); err != nil {
		return BackfillResult{}, err
	}
	result, err := r.countBackfill(ctx, &in, s)
	if err != nil || in.DryRun {
		return result, err
	}
	if result.Slots == 0 {
		return BackfillResult{}, schedule.Explain(schedule.ErrPrecondition, "cannot backfill: schedule %s has no slot from %s until %s (exclusive)", schedule.Quote(in.ScheduleID),
			in.From.Format(time.RFC3339), in.To.Format(time.RFC3339))
	}
	b := newBackfill(&in, s, id, hash, now)
	b.Slots, b.ToRun = int64(result.Slots), int64(result.Count)
	result.Backfill, err = r.backfills.ChangeBackfill(ctx, schedule.BackfillRef{ScheduleID: s.ScheduleID, BackfillID: id},
		func(found schedule.BackfillInput) (schedule.BackfillChange, error) { return newlyAsked(found, b, now) })
	if err != nil {
		return BackfillResult{}, err
	}
	if result.Backfill.RequestHash != hash { // the same request id, at the same time
		return BackfillResult{}, otherBackfill(in.RequestID)
	}
	r.log.InfoContext(ctx, "backfill requested", "schedule_id", s.ScheduleID, "backfill_id", id, "from", b.From, "to", b.To,
		"reprocess", string(b.Reprocess), "slots", b.Slots, "to_run", b.ToRun)
	return result, nil
}

// newlyAsked decides on a new backfill, its schedule locked.
func newlyAsked(found schedule.BackfillInput, b schedule.Backfill, now time.Time) (schedule.BackfillChange, error) {
	s := found.Schedule
	switch {
	case found.Backfill != nil: // a concurrent repeat
		return schedule.BackfillChange{}, nil
	case s == nil || !s.Alive():
		return schedule.BackfillChange{}, notFound(b.ScheduleID)
	case s.Revision != b.Revision:
		return schedule.BackfillChange{}, schedule.Explain(schedule.ErrUnavailable, "schedule %s was changed just now; try again", schedule.Quote(b.ScheduleID))
	case found.OfSchedule >= schedule.MaxScheduleBackfills:
		return schedule.BackfillChange{}, schedule.Explain(schedule.ErrExhausted, "schedule %s has %d unfinished backfills, the maximum; cancel one, or wait",
			schedule.Quote(b.ScheduleID), found.OfSchedule)
	case found.OfOwner >= schedule.MaxOwnerBackfills:
		return schedule.BackfillChange{}, schedule.Explain(schedule.ErrExhausted, "owner %s has %d unfinished backfills, the maximum; cancel one, or wait",
			schedule.Quote(b.UserID), found.OfOwner)
	}
	if err := refuseOverlap(schedule.Run{OverlapPolicy: b.OverlapPolicy, OverlapKey: b.OverlapKey}, found.InFlight); err != nil {
		return schedule.BackfillChange{}, err
	}
	e := backfillEvent(&b, schedule.EventBackfillAsked, b.CreatedBy, b.Note, now)
	e.Count = b.ToRun
	return schedule.BackfillChange{Row: &b, Events: []schedule.Event{e}, Now: now}, nil
}

func newBackfill(in *BackfillInput, s *schedule.Schedule, id string, hash [32]byte, now time.Time) schedule.Backfill {
	b := schedule.Backfill{
		BackfillID: id, ScheduleID: s.ScheduleID, RequestID: in.RequestID, RequestHash: hash, UserID: s.UserID,
		Revision: s.Revision, OverlapKey: s.QualifiedOverlapKey(), From: in.From, To: in.To, Reprocess: in.Reprocess, Order: in.Order,
		OverlapPolicy: in.OverlapPolicy, Concurrency: in.Concurrency, RatePerMinute: in.RatePerMinute, Note: in.Note, CreatedBy: in.Actor,
		State: schedule.BackfillRunning, Cursor: in.From, Open: true, CreatedAt: now, UpdatedAt: now,
	}
	if b.Order == schedule.NewestFirst {
		b.Cursor = in.To
	}
	return b
}

func backfillEvent(b *schedule.Backfill, kind schedule.EventKind, actor, note string, now time.Time) schedule.Event {
	if note = "backfill " + b.BackfillID + ": " + note; note[len(note)-2:] == ": " {
		note = note[:len(note)-2]
	}
	return schedule.Event{
		ScheduleID: b.ScheduleID, Time: now, Kind: kind, From: b.From, To: b.To.Add(-time.Second), Count: b.Inserted,
		Actor: actor, Note: note, Revision: b.Revision,
	}
}

// backfillHash is of all that makes two requests the same.
func backfillHash(in *BackfillInput) [32]byte {
	raw, err := json.Marshal([]any{in.From, in.To, in.Reprocess, in.Order, in.OverlapPolicy, in.Concurrency, in.RatePerMinute, in.Note})
	if err != nil { // times beyond the year 9999; they are refused in a moment
		raw = []byte(err.Error())
	}
	return sha256.Sum256(raw)
}

// askedBackfill is the backfill that the same request has made, if it has.
func (r *Registrar) askedBackfill(ctx context.Context, id, requestID string, hash [32]byte) (*schedule.Backfill, error) {
	b, err := r.backfills.GetBackfill(ctx, id)
	switch {
	case errors.Is(err, schedule.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case b.RequestHash != hash:
		return nil, otherBackfill(requestID)
	}
	return b, nil
}

func otherBackfill(requestID string) error {
	return schedule.Explain(schedule.ErrKeyConflict, "request_id %q was used before for another backfill; use a new one", requestID)
}

// checkBackfill refuses input that is invalid for any schedule, and sets defaults.
func (r *Registrar) checkBackfill(in *BackfillInput) error {
	var c schedule.Collect
	checkID(&c, "schedule_id", in.ScheduleID)
	checkID(&c, "request_id", in.RequestID)
	if err := checkNote(in.Note); err != nil {
		c.Note("note", err.Error(), "")
	}
	in.Reprocess = cmp.Or(in.Reprocess, schedule.ReprocessMissed)
	in.Order = cmp.Or(in.Order, schedule.OldestFirst)
	in.Concurrency = cmp.Or(in.Concurrency, 1)
	checkWord(&c, "reprocess", in.Reprocess, schedule.Reprocesses)
	checkWord(&c, "order", in.Order, schedule.BackfillOrders)
	if in.OverlapPolicy != "" {
		checkWord(&c, "overlap_policy", in.OverlapPolicy, schedule.OverlapPolicies)
	}
	switch in.OverlapPolicy {
	case schedule.OverlapReplace:
		c.Add("overlap_policy", in.OverlapPolicy, "would cancel runs that are in flight", "use allow, queue or skip")
	case schedule.OverlapCoalesce:
		c.Add("overlap_policy", in.OverlapPolicy, "would run only the newest slot that waits", "use allow, queue or skip")
	}
	between := func(field string, n, least, most int32) {
		if n < least || n > most {
			c.Add(field, n, fmt.Sprintf("is not from %d to %d", least, most), "")
		}
	}
	between("concurrency", in.Concurrency, 1, schedule.MaxBackfillConcurrency)
	between("rate_per_minute", in.RatePerMinute, 0, schedule.MaxBackfillRate)
	in.From, in.To = schedule.CeilSecond(in.From), utc(in.To)
	if in.From.IsZero() {
		c.Note("from", "is required", "give the first instant of the range")
	}
	return c.Err()
}

// checkRange refuses a range that does not lie in the schedule's past, and
// resolves the overlap policy.
func (r *Registrar) checkRange(in *BackfillInput, s *schedule.Schedule, now time.Time) error {
	var c schedule.Collect
	shown := func(t time.Time) string { return t.Format(time.RFC3339) }
	switch {
	case in.To.After(now):
		c.Add("to", shown(in.To), "is in the future", "only past slots can be backfilled; it is "+shown(now)+" now")
	case !in.From.Before(in.To):
		c.Add("from", shown(in.From), "is not before "+shown(in.To), "the range is from `from` until `to` (exclusive)")
	}
	in.To = schedule.CeilSecond(in.To) // the same slots
	if in.Reprocess != schedule.ReprocessAll {
		oldest := schedule.CeilSecond(now.Add(-r.cfg.Retention))
		switch {
		case in.From.Before(s.CreatedAt.Truncate(time.Second)):
			c.Add("from", shown(in.From), "is before the schedule's creation at "+shown(s.CreatedAt), "start there, or set reprocess all")
		case r.cfg.Retention > 0 && in.From.Before(oldest):
			c.Add("from", shown(in.From), "is before "+shown(oldest)+", and older runs are not kept (RETENTION_DAYS)",
				"start there, or set reprocess all")
		}
	}
	switch in.OverlapPolicy = cmp.Or(in.OverlapPolicy, s.OverlapPolicy); in.OverlapPolicy {
	case schedule.OverlapReplace, schedule.OverlapCoalesce:
		in.OverlapPolicy = schedule.OverlapQueue // it cancels no run in flight, and runs each of its slots
	}
	if in.Concurrency > 1 && in.OverlapPolicy.Exclusive() {
		c.Add("concurrency", in.Concurrency, "needs overlap_policy allow; it is "+string(in.OverlapPolicy), "set overlap_policy allow, or concurrency 1")
	}
	return c.Err()
}

// countBackfill counts the slots of a range, and those that would run now.
func (r *Registrar) countBackfill(ctx context.Context, in *BackfillInput, s *schedule.Schedule) (BackfillResult, error) {
	var out BackfillResult
	tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
	if err != nil {
		return out, schedule.Explain(schedule.ErrPrecondition, "cannot backfill: the rule of schedule %s is unreadable: %v", schedule.Quote(s.ScheduleID), err)
	}
	if out.Slots, _ = tt.Count(in.From, in.To); out.Slots > schedule.MaxBackfillSlots {
		return out, schedule.Invalid("to", in.To.Format(time.RFC3339),
			fmt.Sprintf("makes a range of %d slots, more than %d", out.Slots, schedule.MaxBackfillSlots), "split it into several backfills")
	}
	budget, done := r.budget("backfill")
	defer done()
	slots := make([]time.Time, 0, min(out.Slots, slotStatesAt))
	look := func() error {
		standings, err := r.backfills.SlotStates(ctx, s.ScheduleID, slots)
		for i := range standings {
			if in.Reprocess.Wants(standings[i]) {
				out.Count++
				out.Last = slots[i]
				if out.First.IsZero() {
					out.First = slots[i]
				}
			}
		}
		slots = slots[:0]
		return err
	}
	for at, ok := tt.From(in.From); ok && at.Before(in.To); at, ok = tt.Next(at) {
		if err := budget.Spend(ctx, slotStateSteps); err != nil {
			return out, err // of the context: MaxBackfillSlots costs less than a call may
		}
		if slots = append(slots, at); len(slots) == slotStatesAt {
			if err := look(); err != nil {
				return out, err
			}
		}
	}
	return out, look()
}
