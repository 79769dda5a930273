package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

// Pass is one look at what can be claimed.
type Pass struct {
	Now          time.Time
	ClaimAhead   time.Duration          // runs that fire so soon are claimed early
	Grace        time.Duration          // a planned slot is missed if no leader saw it within it
	Limit        int                    // free launches: the most runs for launches that one pass looks at
	Capacity     func(owner string) int // how many more an owner may have (see Share); nil: any number
	RequireGrant bool                   // a run that names no grant is ended
}

// Facts are what a pass needs to know besides the runs.
type Facts struct {
	// Definitions has no entry for a revision that is missing or cannot be read.
	Definitions map[schedule.RevisionID]*schedule.Definition
	// Grants has no entry for a grant that does not exist.
	Grants map[schedule.GrantRef]*schedule.Grant
	// Queues are those that the definitions name, by id; no entry: there never was one.
	Queues map[string]*schedule.Queue
	// Superseded are the automatic retries under policy replace for which a newer slot has
	// started.
	Superseded map[schedule.Key]bool
}

// Verdicts are what one pass has decided. They are entered by Commit, once they
// are durable.
type Verdicts struct {
	Claims  []schedule.Key // in claim order
	Entries []Entry        // in claim order
	Ends    []End
	Waits   []Wait // runs that begin to wait for their overlap group
	Cancels []Cancel
	// Blockers are the runs in flight that block a verdict and were not looked up in
	// the last second.
	Blockers []schedule.Key
	// Left: something that can be claimed was left behind for want of capacity.
	Left bool
	// Unread: of some of that it is not known whether it goes into a queue. The next pass knows more.
	Unread bool
	// SeenUntil is the instant up to which every run was looked at in time. It never
	// passes a missed run that the planner has not judged, nor a run that was not
	// loaded.
	SeenUntil time.Time
	// Weighed is how many runs the overlap verdicts are based on: what the pass costs.
	Weighed int

	now   int64
	epoch int64
}

// At is the instant of the verdicts: a store writes it as the time of the claims and ends.
func (v *Verdicts) At() time.Time { return time.UnixMicro(v.now).UTC() }

// Wait is a run that begins to wait for its overlap group.
type Wait struct {
	Key   schedule.Key
	Since time.Time // that of a run whose place it takes; zero: Verdicts.At
}

// WaitsSince is the waiting_since of a run that begins to wait.
func (v *Verdicts) WaitsSince(w Wait) time.Time {
	if w.Since.IsZero() {
		return v.At()
	}
	return w.Since
}

// WaitKeys are the keys of Waits.
func (v *Verdicts) WaitKeys() []schedule.Key {
	keys := make([]schedule.Key, len(v.Waits))
	for i := range v.Waits {
		keys[i] = v.Waits[i].Key
	}
	return keys
}

// End is the end of a planned run.
type End struct {
	Key          schedule.Key
	To           schedule.Status
	Reason       schedule.Reason
	ErrorCode    string
	ErrorMessage string
}

// Cancel is the request to cancel a run in flight.
type Cancel struct {
	Key    schedule.Key
	Reason schedule.Reason
}

// Moved reports whether the verdicts change any run.
func (v *Verdicts) Moved() bool {
	return len(v.Claims)+len(v.Entries)+len(v.Ends)+len(v.Waits)+len(v.Cancels) > 0
}

// Judge chooses runs within the capacity, reads their facts, and decides on them. The same
// pass again returns the same verdicts, unless Unread. An error is that of facts.
func (s *ShardState) Judge(p Pass, facts func([]schedule.RevisionID) (Facts, error)) (Verdicts, error) {
	if s.stale {
		return Verdicts{}, nil
	}
	p.Limit = max(p.Limit, 0)
	now := micro(p.Now)
	s.advance(now, micro(p.Now.Add(p.ClaimAhead)), micro(p.Now.Add(-p.Grace)))
	clear(s.wakes.taken)
	j := judging{ShardState: s, pass: p, now: now, ended: make(map[*run]bool)}
	j.out = Verdicts{SeenUntil: s.lookedUntil(now), now: now, epoch: s.epoch}
	late := s.lateInOrder()
	chosen, err := s.chooseRead(&p, facts)
	if err != nil {
		return Verdicts{}, err
	}
	j.out.Left, j.out.Unread = chosen.left, chosen.unread
	groups, launching, single := chosen.byGroup()
	if revisions := revisionsOf(late, single, groups); len(revisions) > 0 {
		if j.facts, err = facts(revisions); err != nil {
			return Verdicts{}, err
		}
		j.queued = len(queuesOf(&j.facts)) > 0
	}
	for _, r := range late {
		j.permitted(r) // one that is permitted is the planner's
	}
	for _, r := range single {
		if j.permitted(r) && !j.isTooEarly(r) && j.taken(r) {
			j.claims = append(j.claims, r)
		}
	}
	for i, g := range groups {
		j.judge(g, i < launching)
	}
	j.claim()
	return j.out, nil
}

// byGroup separates chosen runs: the groups of the exclusive ones, in the order in
// which they come, and the single runs of policy allow. The first groups, so many as
// launching says, have a launch left.
func (c *choice) byGroup() (groups []*group, launching int, single []*run) {
	known := make(map[*group]bool)
	add := func(runs []*run) {
		for _, r := range runs {
			switch {
			case !r.exclusive:
				single = append(single, r)
			case !known[r.group]:
				known[r.group] = true
				groups = append(groups, r.group)
			}
		}
	}
	add(c.launches)
	launching = len(groups)
	add(c.entries)
	return groups, launching, single
}

// revisionsOf are the revisions of all planned runs that a pass decides on, some more
// than once.
func revisionsOf(late, single []*run, groups []*group) []schedule.RevisionID {
	ids := make([]schedule.RevisionID, 0, len(late)+len(single)+len(groups))
	add := func(runs []*run) {
		for _, r := range runs {
			ids = append(ids, r.definition())
		}
	}
	add(late)
	add(single)
	for _, g := range groups {
		if g.members != nil {
			add(g.waiting)
			add(g.near.runs)
		}
	}
	return ids
}

// judging is one pass.
type judging struct {
	*ShardState
	pass   Pass
	facts  Facts
	now    int64
	claims []*run
	ended  map[*run]bool
	queued bool // a definition names a queue
	out    Verdicts
}

// permitted reports whether schedule and grant permit a planned run. A run that is
// due and not permitted ends.
func (j *judging) permitted(r *run) bool {
	if j.ended[r] || r.isHeld(j.now) {
		return false
	}
	end, ok := j.refusal(r)
	if !ok && r.fireAt <= j.now { // a refusal is final from fire_at on
		j.end(r, end)
	}
	return ok
}

// refusal is how a run ends that its schedule or grant does not permit.
func (j *judging) refusal(r *run) (end End, ok bool) {
	end.Key = r.key
	switch s := r.schedule; {
	case s.stopped && s.deleted:
		end.To, end.Reason = schedule.StatusCancelled, schedule.ReasonDeleted
		return end, false
	case s.stopped && r.trigger.FromSpec() && s.pause.Active(j.pass.Now):
		end.To, end.Reason = schedule.StatusSkipped, schedule.ReasonPaused
		return end, false
	case r.isPast(j.now):
		end.To, end.Reason = schedule.StatusSkipped, schedule.ReasonMissed
		return end, false
	}
	d := j.facts.Definitions[r.definition()]
	if d == nil {
		return end, true // the claim finds that it is missing
	}
	if r.automatic && r.replaces() && j.facts.Superseded[r.key] {
		end.To, end.Reason = schedule.StatusSkipped, schedule.ReasonCoalesced
		return end, false
	}
	use := d.GrantUse(j.pass.RequireGrant)
	if !use.Required && use.GrantID == "" {
		return end, true
	}
	at := schedule.GrantCheckedAt(j.pass.Now, time.UnixMicro(r.fireAt).UTC())
	end.Reason, end.ErrorMessage = grant.Denial(j.facts.Grants[use.Ref()], use, at)
	end.To = schedule.StatusSkipped
	return end, end.Reason == schedule.ReasonNone
}

func (j *judging) end(r *run, e End) {
	if !j.ended[r] {
		j.ended[r] = true
		j.out.Ends = append(j.out.Ends, e)
	}
}

// judge decides on one overlap group. The capacity bounds which groups are judged,
// not what of a group the verdict is based on. Where mayLaunch is false, no launch is left for
// the group: it is judged later if its turn is that of a run for a launch.
func (j *judging) judge(g *group, mayLaunch bool) {
	if g.members == nil || j.isLookedAtFirst(g) {
		return
	}
	of := overlapGroup{now: j.now, inFlight: g.inFlight, waiting: j.permittedOf(g.waiting)}
	reach := micro(j.pass.Now.Add(j.pass.ClaimAhead))
	for _, r := range g.near.runs {
		if isNear(r) && r.fireAt <= reach && j.permitted(r) && !j.isTooEarly(r) {
			of.due = append(of.due, r)
		}
	}
	if len(of.due) > 1 {
		slices.SortFunc(of.due, byClaimAt(j.now))
	}
	if len(of.inFlight) == 0 {
		of.consumersFirst()
	}
	j.out.Weighed += len(of.inFlight) + len(of.waiting) + len(of.due)
	verdicts, blocked := j.judgeTaken(&of), false
	if !mayLaunch && slices.ContainsFunc(verdicts, func(v verdict) bool { return v.action == schedule.VerdictClaim && !j.enters(v.run) }) {
		return
	}
	for _, v := range verdicts {
		switch v.action {
		case schedule.VerdictClaim:
			j.claims = append(j.claims, v.run)
			continue
		case schedule.VerdictWait:
			j.out.Waits = append(j.out.Waits, v.wait())
		case schedule.VerdictSkip:
			j.end(v.run, End{Key: v.run.key, To: schedule.StatusSkipped, Reason: v.reason})
		case schedule.VerdictCancel:
			j.out.Cancels = append(j.out.Cancels, Cancel{v.run.key, v.reason})
		}
		blocked = true
	}
	for _, r := range g.inFlight {
		if blocked && r.flight.checkedAt+checkedFor <= j.now {
			j.out.Blockers = append(j.out.Blockers, r.key)
		}
	}
}

// checkedFor is how long a look-up of a run in flight counts, in microseconds.
const checkedFor = 1_000_000

func (j *judging) permittedOf(runs []*run) []*run {
	if !slices.ContainsFunc(runs, func(r *run) bool { return !j.permitted(r) }) {
		return runs
	}
	return slices.DeleteFunc(slices.Clone(runs), func(r *run) bool { return !j.permitted(r) })
}

// claim lists the claims in claim order. A run whose definition is missing ends at
// its fire_at.
func (j *judging) claim() {
	slices.SortFunc(j.claims, byClaimAt(j.now))
	j.out.Claims = make([]schedule.Key, 0, len(j.claims))
	for _, r := range j.claims {
		d := j.facts.Definitions[r.definition()]
		if d != nil && d.QueueID != "" {
			j.out.Entries = append(j.out.Entries, j.entry(r, d))
			continue
		}
		if d != nil {
			j.out.Claims = append(j.out.Claims, r.key)
			continue
		}
		if r.fireAt > j.now {
			continue // it may be read by then
		}
		j.end(r, End{
			Key: r.key, To: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, ErrorCode: string(schedule.CodeDefinitionUnreadable),
			ErrorMessage: fmt.Sprintf("the definition of schedule %s, revision %d, is missing or cannot be read", r.schedule.id, r.revision),
		})
	}
}
