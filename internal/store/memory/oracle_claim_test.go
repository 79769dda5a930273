package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

// OracleRequest is what OracleClaim goes by: see ledger.Pass.
type OracleRequest struct {
	Term              schedule.Term
	Now               time.Time
	Limit             int
	Grace, ClaimAhead time.Duration
	Lease             time.Duration
	RetryFor          time.Duration
	Capacity          func(owner string) int
	RequireGrant      bool
	Seen              map[schedule.Key]bool // runs that a claim has seen in time and left behind
}

// OracleResult is what OracleClaim did.
type OracleResult struct {
	Launches []schedule.Launch
	Skipped  []schedule.Skip
	Waiting  int
	Cancels  []schedule.Run
	More     bool // due rows were left behind for want of free launches
}

// OracleClaim claims what is due, and finds all that it judges in the rows. It knows
// no state in memory, so it tells what that should decide.
func (s *Store) OracleClaim(ctx context.Context, req OracleRequest, judge func(schedule.OverlapGroup) []schedule.Verdict) (OracleResult, error) {
	var c oracle
	err := s.fenced(ctx, req.Term, func(t *tx) error {
		t.silent = true
		req.Now = at(req.Now)
		c = oracle{tx: t, req: req, late: req.Now.Add(-req.Grace)}
		return c.claim(judge)
	})
	if err != nil {
		return OracleResult{}, fmt.Errorf("claim runs: %w", err)
	}
	return c.out, nil
}

// MissedRun reports whether a run is the planner's: a slot that fires before cut and that
// no claim has seen in time.
func MissedRun(r *schedule.Run, seen map[schedule.Key]bool, cut time.Time) bool {
	return r.Status == schedule.StatusPlanned && r.Trigger == schedule.TriggerSchedule && r.WaitingSince.IsZero() &&
		!seen[r.Key] && r.FireAt.Before(cut) && r.RunAt.Before(cut)
}

// oracle is one claim transaction.
type oracle struct {
	*tx
	req  OracleRequest
	late time.Time // slots before it that nobody has seen are the planner's
	out  OracleResult
	take []*schedule.Run // to become LAUNCHING
}

func (c *oracle) isLate(r *schedule.Run) bool { return MissedRun(r, c.req.Seen, c.late) }

func (c *oracle) claim(judge func(schedule.OverlapGroup) []schedule.Verdict) error {
	for _, r := range c.due(c.isLate) {
		c.standing(r)
	}
	turns := c.turns()
	if len(turns) == 0 && !c.out.More {
		return nil
	}
	for _, g := range c.groups(turns) {
		if err := c.judge(g, judge); err != nil {
			return err
		}
	}
	c.launch()
	if c.out.More {
		c.stamp()
	}
	return nil
}

// due are the PLANNED rows of the shard that fire within ClaimAhead, do not wait, and
// for which so holds.
func (c *oracle) due(so func(*schedule.Run) bool) []*schedule.Run {
	var out []*schedule.Run
	for _, r := range c.live.due(c.req.Now.Add(c.req.ClaimAhead)) {
		if so(r) && c.inShard(c.req.Term, r.OverlapKey) {
			out = append(out, r)
		}
	}
	return out
}

// claimable rows are due within ClaimAhead, and not the planner's.
func (c *oracle) claimable(r *schedule.Run) bool {
	return r.Status == schedule.StatusPlanned && r.WaitingSince.IsZero() && !r.FireAt.After(c.req.Now.Add(c.req.ClaimAhead)) && !c.isLate(r)
}

// blockedAhead is of rows that could only be armed: another exclusive run of their
// overlap key is in flight.
func (c *oracle) blockedAhead(r *schedule.Run) bool {
	return r.Exclusive && r.FireAt.After(c.req.Now) && c.live.of(r.OverlapKey).exclusive > 0
}

// inOrder is the order of claims.
func (c *oracle) inOrder(a, b *schedule.Run) int {
	return cmp.Or(schedule.FalseFirst(a.FireAt.After(c.req.Now), b.FireAt.After(c.req.Now)), schedule.FalseFirst(a.Trigger.AfterOthers(), b.Trigger.AfterOthers()),
		cmp.Compare(b.Priority, a.Priority), schedule.ByFireAt(a, b))
}

// groups are what overlap is judged on, in the order in which their turn
// comes. Rows under policy allow are taken as they are.
func (c *oracle) groups(turns []*schedule.Run) []*schedule.OverlapGroup {
	var groups []*schedule.OverlapGroup
	of := make(map[string]*schedule.OverlapGroup)
	var due []*schedule.Run
	for _, r := range turns {
		if r.Exclusive && of[r.OverlapKey] == nil {
			g := &schedule.OverlapGroup{OverlapKey: r.OverlapKey, Now: c.req.Now}
			of[r.OverlapKey], groups = g, append(groups, g)
		}
		waits := !r.WaitingSince.IsZero() // it comes with its group
		switch {
		case !c.standing(r), r.Exclusive && waits:
		case r.Exclusive:
			due = append(due, r)
		default:
			c.take = append(c.take, r)
		}
	}
	if c.out.More { // the limit may end the launches, not what the judge sees
		due = c.due(func(r *schedule.Run) bool { return c.claimable(r) && r.Exclusive && of[r.OverlapKey] != nil })
		due = slices.DeleteFunc(due, func(r *schedule.Run) bool { return !c.standing(r) })
	}
	slices.SortFunc(due, c.inOrder)
	for _, r := range due {
		g := of[r.OverlapKey]
		if len(groups) == 1 {
			g.Due = slices.Grow(g.Due, len(due))
		}
		g.Due = append(g.Due, *r)
	}
	if len(groups) > 0 {
		c.addRelated(groups)
	}
	return groups
}

// addRelated adds what waits and what is in flight.
func (c *oracle) addRelated(groups []*schedule.OverlapGroup) {
	for _, g := range groups {
		k := c.live.of(g.OverlapKey)
		for _, r := range k.inFlight.rows {
			g.InFlight = append(g.InFlight, *r)
		}
		if g.Waiting = k.queue[:len(k.queue):len(k.queue)]; !c.allStand(g.Waiting) {
			g.Waiting = nil
			for _, r := range slices.Clone(k.waiting.rows) {
				if c.standing(r) {
					g.Waiting = append(g.Waiting, *r)
				}
			}
		}
	}
}

// allStand reports whether standing holds for every row of a queue. Nothing but the
// schedule, its revision and the trigger decides on rows that are due, so that a run of
// equal ones is looked up once. Automatic retries, and snoozed and interrupted runs of slots, have
// a time of their own.
func (c *oracle) allStand(queue []schedule.Run) bool {
	var last *schedule.Run
	for i := range queue {
		r := &queue[i]
		if last != nil && r.ScheduleID == last.ScheduleID && r.Revision == last.Revision && r.Trigger == last.Trigger && !r.FireAt.After(c.req.Now) && !automatic(r) && r.StartBy.IsZero() {
			continue
		}
		if last = r; c.held(r) || c.verdict(r).To != "" {
			return false
		}
	}
	return true
}

// standing ends a row whose schedule was deleted or paused, once it is due, and
// reports whether it stands. The change that did so has ended it already; this
// is the second lock on the door. A run that no grant allows does not stand
// either.
func (c *oracle) standing(r *schedule.Run) bool {
	if r.Status != schedule.StatusPlanned {
		return false // ended in this transaction
	}
	if c.held(r) {
		return false
	}
	end := c.verdict(r)
	if end.To == "" {
		return true
	}
	if !r.FireAt.After(c.req.Now) { // else not final
		c.end(r, end)
	}
	return false
}

// verdict is how a row that does not stand ends; To is empty for one that does.
func (c *oracle) verdict(r *schedule.Run) (end schedule.Settlement) {
	s := c.schedules[r.ScheduleID]
	end.Key = r.Key
	switch {
	case s == nil || !s.Alive():
		end.To, end.Reason = schedule.StatusCancelled, schedule.ReasonDeleted
	case s.Pause.Active(c.req.Now) && r.Trigger.FromSpec():
		end.To, end.Reason = schedule.StatusSkipped, schedule.ReasonPaused
	case c.tooLate(r):
		end.To, end.Reason = schedule.StatusSkipped, schedule.ReasonMissed
	case automatic(r) && r.OverlapPolicy == schedule.OverlapReplace && c.readable(r) && c.newerStarted(r):
		end.To, end.Reason = schedule.StatusSkipped, schedule.ReasonCoalesced
	default:
		if end.Reason, end.ErrorMessage = c.denied(r); end.Reason != schedule.ReasonNone {
			end.To = schedule.StatusSkipped
		}
	}
	return end
}

// automatic reports whether a run is the retry that Carillon has planned.
func automatic(r *schedule.Run) bool {
	return r.Trigger == schedule.TriggerRetry && r.Key == schedule.RetryKey(r.RetryOf, "/auto")
}

// held: an automatic retry waits while its schedule is paused, as long as it may start.
func (c *oracle) held(r *schedule.Run) bool {
	s := c.schedules[r.ScheduleID]
	return automatic(r) && s != nil && s.Alive() && s.Pause.Active(c.req.Now) && !c.tooLate(r)
}

// tooLate: its catch-up window is over, or it fires after that.
func (c *oracle) tooLate(r *schedule.Run) bool {
	return !r.StartBy.IsZero() && (c.req.Now.After(r.StartBy) || r.FireAt.After(r.StartBy))
}

// newerStarted: a run of a newer slot of the schedule was claimed.
func (c *oracle) newerStarted(r *schedule.Run) bool {
	for _, o := range c.runs {
		if o.ScheduleID == r.ScheduleID && !o.ClaimedAt.IsZero() && r.RunAt.Before(o.RunAt) {
			return true
		}
	}
	return false
}

func (c *oracle) readable(r *schedule.Run) bool {
	return c.revisions[revisionID{r.ScheduleID, r.Revision}] != nil
}

// end ends a PLANNED row.
func (c *oracle) end(r *schedule.Run, e schedule.Settlement) {
	if r.Status != schedule.StatusPlanned {
		return
	}
	now := c.req.Now
	e.CompletedAt = now
	c.change(r, func(r *schedule.Run) {
		r.Status, r.Reason, r.ErrorCode, r.ErrorMessage = e.To, e.Reason, e.ErrorCode, e.ErrorMessage
		r.WaitingSince, r.CompletedAt, r.UpdatedAt = time.Time{}, now, now
	})
	c.out.Skipped = append(c.out.Skipped, schedule.Skip{Settlement: e, ScheduleID: r.ScheduleID, RunAt: r.RunAt})
}

// launch makes what was taken LAUNCHING, in the order of claims.
func (c *oracle) launch() {
	slices.SortFunc(c.take, c.inOrder)
	for _, r := range c.take {
		if len(c.out.Launches) >= c.req.Limit {
			c.out.More = true
			return
		}
		v := c.revisions[revisionID{r.ScheduleID, r.Revision}]
		switch {
		case r.Status != schedule.StatusPlanned:
		case v == nil && r.FireAt.After(c.req.Now): // not final before fire_at
		case v == nil:
			c.end(r, schedule.Settlement{
				Key: r.Key, To: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, ErrorCode: string(schedule.CodeDefinitionUnreadable),
				ErrorMessage: fmt.Sprintf("the definition of schedule %s, revision %d, is missing or cannot be read", r.ScheduleID, r.Revision),
			})
		case r.Exclusive && c.exclusiveInFlight(r.OverlapKey):
			// one_in_flight: whatever the judge believed, it stays PLANNED.
			if c.opts.Watch.Guarded != nil {
				lost := *r
				c.told = append(c.told, func() { c.opts.Watch.Guarded(lost) })
			}
		default:
			c.launchOne(r, v)
		}
	}
}

func (c *oracle) launchOne(r *schedule.Run, v *schedule.Revision) {
	now, definition := c.req.Now, v.Definition
	c.change(r, func(r *schedule.Run) {
		r.Status, r.WaitingSince, r.Epoch, r.ClaimedAt, r.UpdatedAt = schedule.StatusLaunching, time.Time{}, c.req.Term.Epoch, now, now
		r.ClaimedUntil = now.Add(c.req.Lease)
		r.TimeoutAt = schedule.LaunchUntil(&definition, r.FireAt, now, c.req.RetryFor)
	})
	c.out.Launches = append(c.out.Launches, schedule.Launch{Run: *r, Definition: &definition})
}

// stamp marks what was seen in time and left behind: it can no longer be
// missed.
func (c *oracle) stamp() {
	left := c.due(func(r *schedule.Run) bool {
		return !r.FireAt.After(c.req.Now) && !c.req.Seen[r.Key] && !c.isLate(r)
	})
	for _, r := range left[:min(len(left), 5000)] {
		c.req.Seen[r.Key] = true
		c.undo = append(c.undo, func() { delete(c.req.Seen, r.Key) })
	}
}

// denied says why no grant allows a planned run; "" = one does, or its
// definition is missing, which the launch finds.
func (c *oracle) denied(r *schedule.Run) (reason schedule.Reason, why string) {
	v := c.revisions[revisionID{r.ScheduleID, r.Revision}]
	if v == nil {
		return schedule.ReasonNone, ""
	}
	use := v.Definition.GrantUse(c.req.RequireGrant)
	return grant.Denial(c.grants[use.Ref()], use, schedule.GrantCheckedAt(c.req.Now, r.FireAt))
}
