package storetest

import (
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// grantClaims are what a claim makes of grants.
var grantClaims = []check{
	{"a run is claimed on a grant that holds, else SKIPPED with the reason, and its schedule lives on", grantAtClaim},
	{"runs by hand, retries and what is made up for need their grant as well", grantOfEveryTrigger},
	{"where a grant is required a run without one is SKIPPED(grant_denied)", grantRequiredAtClaim},
	{"the grant of the revision counts that the run was planned from", grantOfTheRevision},
	{"what no grant allows neither stands in another's way nor replaces it", grantDeniedBeforeOverlap},
	{"a run that waits is SKIPPED when its grant has ended meanwhile", grantEndsWhileWaiting},
	{"a slot that is close is not armed on a grant that ends until its fire_at", grantOfArmedSlots},
	{"more rows without a grant than the limit hold up nobody", grantDeniedBeyondLimit},
}

// grantCase is one grant and the outcome of a run of the rig's workflow on it.
type grantCase struct {
	name   string
	grant  func(r *rig, name string) string // the id that the schedule names
	reason schedule.Reason
}

func given(edits ...func(*schedule.Grant)) func(r *rig, name string) string {
	return func(r *rig, name string) string { return r.give(name, edits...).GrantID }
}

// grantCases are named for ids: they make one each.
func grantCases(r *rig) []grantCase {
	workflow := r.id("workflow")
	return []grantCase{
		{"without", func(*rig, string) string { return "" }, schedule.ReasonNone},
		{"for-the-workflow", given(), schedule.ReasonNone},
		{"for-its-prefix", given(scoped("graph:execute:" + r.name + ":*")), schedule.ReasonGrantDenied}, // its ids have a dot
		{"for-all", given(scoped("graph:execute:*")), schedule.ReasonNone},
		{"for-another-too", given(scoped("graph:execute:a", "graph:execute:"+workflow)), schedule.ReasonNone},
		{"for-another", given(scoped("graph:execute:" + workflow + "2")), schedule.ReasonGrantDenied},
		{"for-its-beginning", given(scoped("graph:execute:" + workflow[:len(workflow)-1])), schedule.ReasonGrantDenied},
		{"for-nothing", given(scoped("graph:read:" + workflow)), schedule.ReasonGrantDenied},
		{"ends-later", given(expiring(r.at(time.Microsecond))), schedule.ReasonNone},
		{"ends-now", given(expiring(r.now)), schedule.ReasonGrantExpired},
		{"ended", given(expiring(r.at(-time.Hour))), schedule.ReasonGrantExpired},
		{"revoked", func(r *rig, name string) string { return r.revoke(r.give(name)).GrantID }, schedule.ReasonGrantRevoked},
		{"revoked-and-ended", func(r *rig, name string) string { return r.revoke(r.give(name, expiring(r.now))).GrantID }, schedule.ReasonGrantRevoked},
		{"of-another-owner", given(func(g *schedule.Grant) { g.UserID = "somebody" }), schedule.ReasonGrantDenied},
		{"forged", func(r *rig, _ string) string { return r.id("nowhere") }, schedule.ReasonGrantDenied},
	}
}

func grantAtClaim(r *rig) {
	r.lead()
	for _, policy := range []schedule.OverlapPolicy{schedule.OverlapAllow, schedule.OverlapSkip} {
		for _, c := range grantCases(r) {
			c.name += "-" + string(policy)
			grantID := c.grant(r, c.name)
			s := r.create(c.name, withPolicy(policy), func(s *schedule.Schedule) { s.ExecutionGrantID = grantID })
			run := r.slot(s, r.at(-time.Second))
			r.add(run)
			before := r.row(s)
			result := r.claim()
			if c.reason == schedule.ReasonNone {
				equal(r, c.name+": launched", launched(result), []schedule.Key{run.Key})
				r.hold(result.Launches[0].Definition.ExecutionGrantID == grantID, "the launch names its grant")
				r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess})
				continue
			}
			equal(r, c.name+": launched", len(result.Launches), 0)
			r.ended(result, run.Key, schedule.StatusSkipped, c.reason)
			message := r.ledger(run.Key).ErrorMessage
			r.hold(strings.Contains(message, grantID) && message == result.Skipped[0].ErrorMessage, "%s: the message names the grant, got %q", c.name, message)
			equal(r, c.name+": schedules", r.row(s), before)
		}
	}
}

func grantOfEveryTrigger(r *rig) {
	r.lead()
	g := r.revoke(r.give("revoked"))
	for _, policy := range []schedule.OverlapPolicy{schedule.OverlapAllow, schedule.OverlapQueue} {
		s := r.create("all-"+string(policy), withPolicy(policy), on(g))
		var runs []schedule.Run
		for i, trigger := range schedule.Triggers {
			runs = append(runs, r.slot(s, r.at(-time.Duration(i)*time.Second), func(run *schedule.Run) {
				run.Key, run.Trigger = schedule.ManualKey(s.ScheduleID, string(trigger)), trigger
			}))
		}
		r.add(runs...)
		result := r.claim()
		for _, run := range runs {
			r.ended(result, run.Key, schedule.StatusSkipped, schedule.ReasonGrantRevoked)
		}
	}
}

func grantRequiredAtClaim(r *rig) {
	r.lead()
	required := func(req *claimRequest) { req.RequireGrant = true }
	for _, policy := range []schedule.OverlapPolicy{schedule.OverlapAllow, schedule.OverlapSkip} {
		without := r.create("without-"+string(policy), withPolicy(policy))
		with := r.create("with-"+string(policy), withPolicy(policy), on(r.give("g-"+string(policy))))
		denied, runs := r.slot(without, r.now), r.slot(with, r.now)
		r.add(denied, runs)
		result := r.claim(required)
		equal(r, "launched", launched(result), []schedule.Key{runs.Key})
		r.ended(result, denied.Key, schedule.StatusSkipped, schedule.ReasonGrantDenied)
	}
}

func grantOfTheRevision(r *rig) {
	r.lead()
	revoked, active := r.revoke(r.give("revoked")), r.give("active")
	s := r.create("revised", on(revoked))
	old := r.slot(s, r.at(-time.Second))
	r.add(old)
	s = r.revise(s, on(active))
	fresh := r.slot(s, r.now)
	r.add(fresh)
	result := r.claim()
	equal(r, "launched", launched(result), []schedule.Key{fresh.Key})
	r.ended(result, old.Key, schedule.StatusSkipped, schedule.ReasonGrantRevoked)
}

// shared is an edit that puts schedules under one overlap key.
func shared(policy schedule.OverlapPolicy, key string) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) { s.OverlapPolicy, s.OverlapKey = policy, key }
}

func grantDeniedBeforeOverlap(r *rig) {
	r.lead()
	revoked := r.revoke(r.give("revoked"))
	for _, policy := range []schedule.OverlapPolicy{schedule.OverlapSkip, schedule.OverlapReplace, schedule.OverlapQueue} {
		name := string(policy)
		bad := r.create("bad-"+name, shared(policy, "shared-"+name), on(revoked))
		good := r.create("good-"+name, shared(policy, "shared-"+name))
		first, second := r.due(bad, 2), r.due(good, 1)
		r.add(first, second)
		result := r.claim()
		equal(r, name+": launched", launched(result), []schedule.Key{second.Key})
		r.ended(result, first.Key, schedule.StatusSkipped, schedule.ReasonGrantRevoked)

		third := r.due(bad, 0)
		r.add(third)
		result = r.claim()
		r.ended(result, third.Key, schedule.StatusSkipped, schedule.ReasonGrantRevoked)
		r.hold(len(result.Cancels) == 0 && r.ledger(second.Key).CancelRequestedAt.IsZero(), "%s: what runs is not replaced by what may not run", name)
	}
}

func grantEndsWhileWaiting(r *rig) {
	r.lead()
	g := r.give("waits")
	s := r.create("queued", withPolicy(schedule.OverlapQueue), on(g))
	first, second := r.due(s, 2), r.due(s, 1)
	r.add(first, second)
	r.claim()
	r.stand([]schedule.Run{first, second}, "LAUNCHING", "waiting")
	r.revoke(g)
	r.succeed(first)
	result := r.claim()
	equal(r, "launched", len(result.Launches), 0)
	r.ended(result, second.Key, schedule.StatusSkipped, schedule.ReasonGrantRevoked)
}

func grantOfArmedSlots(r *rig) {
	r.lead()
	ahead := func(req *claimRequest) { req.ClaimAhead = time.Second }
	fireAt := r.at(500 * time.Millisecond)
	for _, policy := range []schedule.OverlapPolicy{schedule.OverlapAllow, schedule.OverlapSkip} {
		name := string(policy)
		revoked := r.create("revoked-"+name, withPolicy(policy), on(r.revoke(r.give("revoked-"+name))))
		ending := r.create("ending-"+name, withPolicy(policy), on(r.give("ending-"+name, expiring(fireAt))))
		lasting := r.create("lasting-"+name, withPolicy(policy), on(r.give("lasting-"+name, expiring(fireAt.Add(time.Microsecond)))))
		late := func(s schedule.Schedule) schedule.Run {
			return r.slot(s, noon.Add(time.Second), func(run *schedule.Run) { run.FireAt = fireAt })
		}
		runs := r.add(late(revoked), late(ending), late(lasting))
		result := r.claim(ahead)
		equal(r, name+": armed", launched(result), []schedule.Key{runs[2].Key})
		r.hold(len(result.Skipped) == 0, "%s: nothing is final before its fire_at, got %+v", name, result.Skipped)
		r.stand(runs, "PLANNED", "PLANNED", "LAUNCHING")
		now := r.now
		r.now = fireAt
		result = r.claim(ahead)
		r.ended(result, runs[0].Key, schedule.StatusSkipped, schedule.ReasonGrantRevoked)
		r.ended(result, runs[1].Key, schedule.StatusSkipped, schedule.ReasonGrantExpired)
		r.now = now
	}
}

func grantDeniedBeyondLimit(r *rig) {
	r.lead()
	bad := r.create("bad", on(r.revoke(r.give("revoked"))))
	good := r.create("good", on(r.give("active")))
	var rows []schedule.Run
	for i := range 7 {
		rows = append(rows, r.due(bad, 10-i))
	}
	last := r.due(good, 1)
	r.add(append(rows, last)...)
	for range 10 {
		result := r.claim(func(req *claimRequest) { req.Limit = 3 })
		if !result.More {
			break
		}
		r.hold(len(result.Skipped)+len(result.Launches) > 0, "a claim that leaves rows behind has moved others")
	}
	for _, run := range rows {
		equal(r, "rows without a grant", r.status(run), "SKIPPED(grant_revoked)")
	}
	equal(r, "the row behind them", r.status(last), "LAUNCHING")
}
