package storetest

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// grantBegins are what the last look before the executor makes of grants.
var grantBegins = []check{
	{"a call is granted on a grant that holds, else refused with the reason from fire_at on", grantAtBegin},
	{"where a grant is required a call without one is refused", grantRequiredAtBegin},
	{"a grant that ended after the claim refuses the call", grantEndsAfterClaim},
	{"once a call has begun a grant that ended withholds it and is not final", grantEndsAfterCall},
	{"a call ahead of fire_at is judged by what its grant is then", grantAheadOfFireAt},
	{"what is recorded is answered whatever became of the grant", grantEndsAfterAnswer},
	{"no claim and no call is allowed after a revocation has returned", grantRevokeRaces},
}

// uses is an edit of a request that asks for what a schedule's grant allows.
func uses(s schedule.Schedule) func(*schedule.BeginRequest) {
	return func(req *schedule.BeginRequest) { req.Grant = s.GrantUse(false) }
}

// denied fails unless req is refused for a grant, in words, and stays so.
func (r *rig) denied(req schedule.BeginRequest, reason schedule.Reason) {
	r.Helper()
	got := r.permits(req, schedule.Refused)
	outcome := got.Request.Outcome
	r.hold(got.Reason == reason && outcome.Status == schedule.StatusSkipped && outcome.Reason == reason, "it is SKIPPED(%s), got %+v", reason, got)
	r.hold(strings.Contains(outcome.ErrorMessage, "grant"), "a message says why, got %q", outcome.ErrorMessage)
	equal(r, "recorded outcomes", r.permits(req, schedule.Recorded).Request.Outcome, outcome)
}

func grantAtBegin(r *rig) {
	r.lead()
	for i, c := range grantCases(r) {
		grantID := c.grant(r, c.name)
		s := r.create(c.name) // no claim takes a run on these grants: its key has no run
		run := r.slot(s, r.at(-time.Duration(i)*time.Second))
		s.ExecutionGrantID = grantID
		req := r.beginRequest(run, uses(s))
		ahead := req
		ahead.Key, ahead.FireAt = schedule.ManualKey(s.ScheduleID, "ahead"), r.at(time.Second)
		if c.reason == schedule.ReasonNone {
			r.granted(req)
			continue
		}
		r.withheld(ahead, c.reason)
		r.denied(req, c.reason)
	}
}

func grantRequiredAtBegin(r *rig) {
	r.lead()
	s := r.create("without")
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	r.denied(r.beginRequest(run, func(req *schedule.BeginRequest) { req.Grant = s.GrantUse(true) }), schedule.ReasonGrantDenied)
	r.denied(r.beginRequest(r.manual(s, "unknown", r.now), func(req *schedule.BeginRequest) { req.Grant = s.GrantUse(true) }), schedule.ReasonGrantDenied)
}

func grantEndsAfterClaim(r *rig) {
	r.lead()
	g := r.give("ends")
	s := r.create("claimed", on(g))
	slot := r.bring(r.slot(s, r.at(-time.Second)), schedule.StatusLaunching)
	byHand := r.bring(r.manual(s, "m", r.now), schedule.StatusLaunching)
	unsent := r.bring(r.slot(s, r.at(-2*time.Second)), schedule.StatusLaunching)
	r.granted(r.beginRequest(unsent, uses(s)))
	r.release(unsent.Key, false)
	r.revoke(g)
	for _, run := range []schedule.Run{slot, byHand, unsent} {
		r.denied(r.beginRequest(run, uses(s)), schedule.ReasonGrantRevoked)
	}
}

func grantEndsAfterCall(r *rig) {
	r.lead()
	g := r.give("ends")
	s := r.create("called", on(g))
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	r.granted(r.beginRequest(run, uses(s)))
	r.release(run.Key, true)
	r.revoke(g)
	r.withheld(r.beginRequest(run, uses(s)), schedule.ReasonGrantRevoked)
}

func grantAheadOfFireAt(r *rig) {
	r.lead()
	fireAt := r.at(time.Second)
	for name, c := range map[string]struct {
		end  time.Time
		want schedule.Permission
	}{
		"ends-before":  {r.at(900 * time.Millisecond), schedule.Withheld},
		"ends-with-it": {fireAt, schedule.Withheld},
		"ends-after":   {fireAt.Add(time.Microsecond), schedule.Granted},
	} {
		s := r.create(name, on(r.give(name, expiring(c.end))))
		run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
		r.permits(r.beginRequest(run, uses(s), func(req *schedule.BeginRequest) { req.FireAt = fireAt }), c.want)
	}
}

func grantEndsAfterAnswer(r *rig) {
	r.lead()
	g := r.give("ends")
	s := r.create("answered", on(g))
	run := r.bring(r.slot(s, r.now), schedule.StatusLaunching)
	r.granted(r.beginRequest(run, uses(s)))
	r.finish(run.Key, accepted)
	r.revoke(g)
	equal(r, "outcomes", r.permits(r.beginRequest(run, uses(s)), schedule.Recorded).Request.Outcome, accepted)
}

// grantRevokeRaces revokes a grant while one claims and one begins.
func grantRevokeRaces(r *rig) {
	r.lead()
	for round := range 10 {
		name := "raced-" + string(rune('a'+round))
		g := r.give(name)
		s := r.create(name, on(g))
		var waiting, launching []schedule.Run
		for i := range 12 {
			waiting = append(waiting, r.due(s, i))
			launching = append(launching, r.manual(s, name+string(rune('a'+i)), r.now))
		}
		r.add(launching...)
		r.claim()
		r.add(waiting...)
		var acknowledged atomic.Bool
		begun := make(chan struct{}, 2)
		r.crowd(3, func(who int) {
			if who == 0 {
				<-begun
				if _, err := r.RevokeGrant(r.ctx, schedule.GrantRevocation{Grant: g.Ref(), At: r.now}); err != nil {
					r.Errorf("revoke: %v", err)
				}
				acknowledged.Store(true)
				return
			}
			for i := range 12 {
				late := acknowledged.Load() // before the look begins
				if allowed := r.lookOnce(who, s, launching[i]); late && allowed {
					r.Errorf("a run is claimed or called after the revocation of its grant has returned")
				}
				if i == 0 {
					begun <- struct{}{}
				}
			}
		})
		r.claim()
		for _, run := range waiting {
			got := r.status(run)
			r.hold(got == "LAUNCHING" || got == "SKIPPED(grant_revoked)", "a slot was launched or skipped, it is %s", got)
		}
		r.settleEverything()
	}
}

// lookOnce claims one run, or begins one call, and reports whether it may go on.
func (r *rig) lookOnce(who int, s schedule.Schedule, run schedule.Run) bool {
	if who == 1 {
		return r.claimOne() > 0
	}
	results, err := r.Begin(r.ctx, []schedule.BeginRequest{r.beginRequest(run, uses(s))}, r.now)
	if err != nil {
		r.Errorf("begin: %v", err)
		return false
	}
	return results[0].Permission == schedule.Granted
}
