package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// LoadOpen reads what is open in the term's buckets. With a from it reads only the
// planned runs that do not wait and fire after from.
func (s *Store) LoadOpen(ctx context.Context, term schedule.Term, from, until time.Time) (open ledger.Open, err error) {
	err = s.read(ctx, func() error {
		open.Position, open.SeenUntil = s.changes.position(), s.seenUntil(term.Shard)
		if from.IsZero() {
			open.Wakes = s.wakesOf(term, nil)
		}
		stopped := make(map[string]bool)
		for r := range s.openRuns(at(from), at(until)) {
			if !s.inShard(term, r.OverlapKey) {
				continue
			}
			open.Runs = append(open.Runs, ledger.RunOf(r))
			if now := s.stateOf(r.ScheduleID); now.stops() && !stopped[r.ScheduleID] {
				stopped[r.ScheduleID] = true
				open.Stopped = append(open.Stopped, now.ScheduleNow)
			}
		}
		return nil
	})
	if err != nil {
		return ledger.Open{}, fmt.Errorf("load open runs: %w", err)
	}
	return open, nil
}

func (s *Store) openRuns(from, until time.Time) func(yield func(*schedule.Run) bool) {
	return func(yield func(*schedule.Run) bool) {
		planned := s.live.due(until)
		if !from.IsZero() {
			planned = planned[min(len(s.live.due(from)), len(planned)):]
		} else {
			for r := range eachOf(&s.live.waiting, &s.live.launching, &s.live.started, &s.live.queued) {
				if !r.IsJob() && !yield(r) {
					return
				}
			}
		}
		for _, r := range planned {
			if !yield(r) {
				return
			}
		}
	}
}

// scheduleState says whether a schedule lets its runs be launched.
type scheduleState struct{ ledger.ScheduleNow }

func (s scheduleState) stops() bool { return s.Deleted || s.Pause.Paused }

func (s *Store) stateOf(id string) scheduleState {
	now := scheduleState{ledger.ScheduleNow{ScheduleID: id, Deleted: true}}
	if row := s.schedules[id]; row != nil {
		now.Deleted, now.Pause = !row.Alive(), row.Pause
	}
	return now
}

// Claim lets claim judge under the lock and writes its verdicts.
func (s *Store) Claim(ctx context.Context, req ledger.ClaimRequest, claim *ledger.Claim) (ledger.Claimed, error) {
	var c claiming
	err := s.fenced(ctx, req.Term, func(t *tx) error {
		t.silent = true
		req.Now = at(req.Now)
		c = claiming{tx: t, req: req}
		return c.claim(claim)
	})
	if err != nil {
		return ledger.Claimed{}, fmt.Errorf("claim runs: %w", err)
	}
	return c.out, nil
}

// claiming is one claim transaction.
type claiming struct {
	*tx
	req ledger.ClaimRequest
	out ledger.Claimed
}

func (c *claiming) claim(claim *ledger.Claim) error {
	read, err := c.changes.after(c.req.Position)
	if err != nil {
		return err
	}
	v, err := claim.Decide(&reader{Store: c.Store, term: c.req.Term, unread: read})
	if err != nil {
		return err
	}
	c.req.Now = v.At()
	if c.out.Missing = c.missing(claim, &v); len(c.out.Missing) > 0 {
		v = claim.State.Without(v, c.out.Missing)
	}
	for i := range v.Ends {
		c.end(&v.Ends[i])
	}
	for _, w := range v.Waits {
		c.change(c.runs[w.Key], func(r *schedule.Run) { r.WaitingSince, r.UpdatedAt = v.WaitsSince(w), c.req.Now })
	}
	for _, cancel := range v.Cancels {
		if r := c.runs[cancel.Key]; c.askCancel(r, cancel.Reason, c.req.Now) {
			c.out.Cancels = append(c.out.Cancels, *r)
		}
	}
	v.Claims = slices.DeleteFunc(slices.Clone(v.Claims), func(key schedule.Key) bool { return !c.launch(c.runs[key]) })
	groups := c.slotGroups(v.Entries)
	v.Entries = slices.DeleteFunc(slices.Clone(v.Entries), func(e ledger.Entry) bool { return !c.enter(c.runs[e.Key], &e, groups) })
	c.writeSlotGroups(groups)
	c.sawUntil(c.req.Term.Shard, v.SeenUntil)
	c.out.Verdicts, c.out.Position = v, c.changes.position()
	return nil
}

// missing returns the runs that are not in the state that their verdict needs.
func (c *claiming) missing(claim *ledger.Claim, v *ledger.Verdicts) (missing []schedule.Key) {
	want := func(key schedule.Key, so func(*schedule.Run) bool) {
		if r := c.runs[key]; r == nil || !so(r) {
			missing = append(missing, key)
		}
	}
	planned := func(r *schedule.Run) bool { return r.Status == schedule.StatusPlanned }
	for i := range v.Ends {
		want(v.Ends[i].Key, planned)
	}
	for _, w := range v.Waits {
		want(w.Key, planned)
	}
	for _, cancel := range v.Cancels {
		want(cancel.Key, func(r *schedule.Run) bool { return r.Status.InFlight() })
	}
	for _, key := range v.Claims {
		want(key, func(r *schedule.Run) bool { return planned(r) && claim.IsAsJudged(r) })
	}
	for _, e := range v.Entries {
		want(e.Key, func(r *schedule.Run) bool { return planned(r) && claim.IsAsJudged(r) })
	}
	return missing
}

// end ends a PLANNED row.
func (c *claiming) end(e *ledger.End) {
	r := c.runs[e.Key]
	s := schedule.Settlement{Key: e.Key, To: e.To, Reason: e.Reason, ErrorCode: e.ErrorCode, ErrorMessage: e.ErrorMessage, CompletedAt: c.req.Now}
	c.settle(&s, c.req.Now)
	c.out.Skipped = append(c.out.Skipped, schedule.Skip{Settlement: s, ScheduleID: r.ScheduleID, RunAt: r.RunAt})
}

// launch makes a PLANNED row LAUNCHING, unless another exclusive run of its group
// is in flight: the unique index one_in_flight of the other stores.
func (c *claiming) launch(r *schedule.Run) (launched bool) {
	if c.isRefused(r) {
		return false
	}
	definition := c.revisions[revisionID{r.ScheduleID, r.Revision}].Definition
	c.change(r, func(r *schedule.Run) { *r = c.req.Launched(*r, &definition) })
	c.out.Launches = append(c.out.Launches, schedule.Launch{Run: *r, Definition: &definition})
	return true
}

// enter puts a PLANNED row into its queue, with the same guard.
func (c *claiming) enter(r *schedule.Run, e *ledger.Entry, groups *ledger.SlotGroups) (entered bool) {
	if c.isRefused(r) {
		return false
	}
	definition := c.revisions[revisionID{r.ScheduleID, r.Revision}].Definition
	after := c.req.EnterQueue(*r, &definition, e.Queue)
	groups.Join(e, &after)
	after.Queue.Position = c.lastPositions(1)[0]
	c.change(r, func(r *schedule.Run) { *r = after })
	c.queued = true
	c.out.Entered = append(c.out.Entered, *r)
	return true
}

// isRefused guards one_in_flight.
func (c *claiming) isRefused(r *schedule.Run) bool {
	if !r.Exclusive || !c.exclusiveInFlight(r.OverlapKey) {
		return false
	}
	c.out.Refused = append(c.out.Refused, r.Key)
	if c.opts.Watch.Guarded != nil {
		lost := *r
		c.told = append(c.told, func() { c.opts.Watch.Guarded(lost) })
	}
	return true
}

func (s *Store) exclusiveInFlight(overlapKey string) bool { return s.live.of(overlapKey).exclusive > 0 }

// inFlight counts the runs of an overlap key that are LAUNCHING, ENQUEUED or
// STARTED.
func (s *Store) inFlight(overlapKey string) (n int) {
	return len(s.live.of(overlapKey).inFlight.rows)
}

// seenUntil returns the recorded seen_until of a shard; zero: none.
func (s *Store) seenUntil(shard int) time.Time {
	if row := s.leaders[shard]; row != nil {
		return row.seenUntil
	}
	return time.Time{}
}

func (t *tx) sawUntil(shard int, until time.Time) {
	row := t.leaders[shard]
	if before := row.seenUntil; until.After(before) {
		row.seenUntil = at(until)
		t.undo = append(t.undo, func() { row.seenUntil = before })
	}
}

// reader reads for one claim transaction. The lock of the store is held, so nothing
// changes between its calls.
type reader struct {
	*Store
	term   schedule.Term
	unread []change
}

// Changes reads again what the unread changes name.
func (r *reader) Changes() (ledger.Changes, error) {
	var c ledger.Changes
	schedules, runs := make(map[string]bool), make(map[schedule.Key]bool)
	for _, row := range r.unread {
		if !row.concerns(r.term) {
			continue
		}
		for _, id := range row.schedules {
			schedules[id] = true
		}
		for _, key := range row.keys {
			if row.kind == runEnded {
				c.Ended = append(c.Ended, key)
			} else {
				runs[key] = true
			}
		}
	}
	r.unread = nil
	for key := range runs {
		run := r.runs[key]
		switch {
		case run == nil || run.Status.Terminal():
			c.Ended = append(c.Ended, key)
		case r.inShard(r.term, run.OverlapKey):
			c.Runs = append(c.Runs, ledger.RunOf(run))
			if r.stateOf(run.ScheduleID).stops() {
				schedules[run.ScheduleID] = true
			}
		}
	}
	planned := make(map[string][]ledger.Run)
	if len(schedules) > 0 {
		for run := range eachOf(&r.live.planned, &r.live.waiting) {
			if schedules[run.ScheduleID] && r.inShard(r.term, run.OverlapKey) {
				planned[run.ScheduleID] = append(planned[run.ScheduleID], ledger.RunOf(run))
			}
		}
	}
	for id := range schedules {
		now := r.stateOf(id).ScheduleNow
		now.Planned = planned[id]
		c.Schedules = append(c.Schedules, now)
	}
	if len(schedules) > 0 {
		c.Woken, c.Wakes = slices.Sorted(maps.Keys(schedules)), r.wakesOf(r.term, schedules)
	}
	sortChanges(&c)
	return c, nil
}

// InFlight returns the runs that are in flight.
func (r *reader) InFlight(keys []schedule.Key) (map[schedule.Key]bool, error) {
	in := make(map[schedule.Key]bool, len(keys))
	for _, key := range keys {
		if run := r.runs[key]; run != nil && run.Status.InFlight() {
			in[key] = true
		}
	}
	return in, nil
}

// Facts returns the definitions of revisions and the grants that these name.
func (r *reader) Facts(ids []schedule.RevisionID) (ledger.Facts, error) {
	f := ledger.Facts{Definitions: make(map[schedule.RevisionID]*schedule.Definition, len(ids)), Grants: make(map[schedule.GrantRef]*schedule.Grant)}
	for _, id := range ids {
		v := r.revisions[revisionID{id.ScheduleID, id.Revision}]
		if v == nil {
			continue
		}
		f.Definitions[id] = &v.Definition // a revision never changes
		if ref := v.Definition.GrantRef(); r.grants[ref] != nil {
			f.Grants[ref] = r.grants[ref]
		}
	}
	return f, nil
}

// Queues returns queues by id.
func (r *reader) Queues(ids []string) (map[string]*schedule.Queue, error) {
	found := make(map[string]*schedule.Queue)
	for _, id := range ids {
		if q := r.queues[id]; q != nil {
			copied := *q
			found[id] = &copied
		}
	}
	return found, nil
}

// Waiting counts the runs that wait in a queue.
func (r *reader) Waiting(queueNo int32, _ int) (int, error) {
	return len(r.ofQueue(queueNo, schedule.QueueDelayed, schedule.QueueWaiting, schedule.QueueChained)), nil
}

// Superseded returns the planned runs for which a newer slot has started.
func (r *reader) Superseded(keys []schedule.Key) (map[schedule.Key]bool, error) {
	found := make(map[schedule.Key]bool)
	for _, key := range keys {
		planned := r.runs[key]
		if planned == nil || planned.Status != schedule.StatusPlanned {
			continue
		}
		for _, other := range r.runs {
			if other.ScheduleID == planned.ScheduleID && other.RunAt.After(planned.RunAt) && !other.IsJob() && !other.FlightSince().IsZero() {
				found[key] = true
			}
		}
	}
	return found, nil
}
