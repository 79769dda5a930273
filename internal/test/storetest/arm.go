package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// arms are claims of rows that fall due within ClaimAhead.
var arms = []check{
	{"rows that fall due within ClaimAhead are claimed early, later ones are not", armWithinAhead},
	{"armed rows come after those that are due, whatever their priority", armAfterDue},
	{"a row that is only close stays as it is while another of its group is due", armJudged},
	{"seen_until does not pass now, whatever is close", armNotSeen},
	{"a row that is only close and blocked takes nobody's place", armNotBlocked},
	{"a row whose definition is missing does not end before its fire_at", armWithoutDefinition},
}

func ahead(d time.Duration) func(*claimRequest) {
	return func(req *claimRequest) { req.ClaimAhead = d }
}

func armWithinAhead(r *rig) {
	r.lead()
	s := r.create("allow")
	in := func(d time.Duration) schedule.Run {
		return r.slot(s, r.at(time.Second), func(run *schedule.Run) {
			run.Key, run.FireAt = schedule.ManualKey(s.ScheduleID, d.String()), r.at(d)
		})
	}
	due, soon, edge, beyond := in(0), in(time.Millisecond), in(250*time.Millisecond), in(250*time.Millisecond+time.Microsecond)
	r.add(beyond, edge, due, soon)
	equal(r, "launched", launched(r.claim(ahead(250*time.Millisecond))), keysOf([]schedule.Run{due, soon, edge}))
	got := r.ledger(edge.Key)
	r.hold(got.FireAt.Equal(edge.FireAt) && got.ClaimedAt.Equal(r.now), "an armed row keeps its fire_at, got %s, claimed at %s", got.FireAt, got.ClaimedAt)
	r.stand([]schedule.Run{beyond}, "PLANNED")
}

func armAfterDue(r *rig) {
	r.lead()
	s := r.create("allow")
	soon := r.manual(s, "soon", r.at(time.Millisecond), func(run *schedule.Run) { run.Priority = 1000 })
	caughtUp := r.manual(s, "due", r.at(-time.Second), func(run *schedule.Run) { run.Trigger, run.Priority = schedule.TriggerBackfill, -1000 })
	r.add(soon, caughtUp)
	var got []schedule.Key
	for range 2 {
		got = append(got, launched(r.claim(ahead(time.Second), func(req *claimRequest) { req.Limit = 1 }))...)
	}
	equal(r, "launched", got, []schedule.Key{caughtUp.Key, soon.Key})
}

func armJudged(r *rig) {
	r.lead()
	s := r.create("skip", withPolicy(schedule.OverlapSkip))
	due, soon := r.due(s, 1), r.slot(s, r.at(time.Second), func(run *schedule.Run) { run.FireAt = r.at(time.Millisecond) })
	r.add(due, soon)
	result := r.claim(ahead(time.Second))
	equal(r, "launched", launched(result), []schedule.Key{due.Key})
	r.untouched(soon)

	alone := r.create("alone", withPolicy(schedule.OverlapSkip))
	armed := r.slot(alone, r.at(time.Second))
	r.add(armed)
	r.claim(ahead(time.Second))
	r.stand([]schedule.Run{armed, soon}, "LAUNCHING", "PLANNED")
}

func armNotSeen(r *rig) {
	r.lead()
	s := r.create("allow")
	due, soon := r.due(s, 1), r.slot(s, r.at(time.Millisecond*1000))
	r.add(due, soon)
	result := r.claim(ahead(time.Second), func(req *claimRequest) { req.Limit = 0 })
	r.hold(result.More, "a due row is left")
	r.hold(r.seenUntil().Equal(r.now), "seen_until is now, got %s", r.seenUntil())
	r.untouched(soon)
}

func armNotBlocked(r *rig) {
	r.lead()
	busy, free := r.create("busy", withPolicy(schedule.OverlapSkip)), r.create("free", withPolicy(schedule.OverlapSkip))
	before := r.due(busy, 1)
	r.add(before)
	r.claim()
	blocked := r.slot(busy, r.at(time.Second), func(run *schedule.Run) { run.FireAt = r.at(time.Millisecond) })
	next := r.slot(free, r.at(time.Second), func(run *schedule.Run) { run.FireAt = r.at(2 * time.Millisecond) })
	r.add(blocked, next)
	one := func(req *claimRequest) { req.Limit = 1 }
	result := r.claim(ahead(time.Second), one)
	equal(r, "launched", launched(result), []schedule.Key{next.Key})
	r.hold(!result.More, "nothing else could be claimed")
	r.untouched(blocked)
}

func armWithoutDefinition(r *rig) {
	r.lead()
	allow, skip := r.create("allow"), r.create("skip", withPolicy(schedule.OverlapSkip))
	soon := func(s schedule.Schedule) schedule.Run {
		return r.slot(s, r.at(time.Second), func(run *schedule.Run) { run.Revision = 99 })
	}
	rows := []schedule.Run{soon(allow), soon(skip)}
	r.add(rows...)
	for _, d := range []time.Duration{0, 999 * time.Millisecond} {
		r.now = r.at(d)
		result := r.claim(ahead(time.Second))
		r.hold(len(result.Launches) == 0 && len(result.Skipped) == 0, "nothing moves before fire_at, got %+v", result)
		r.stand(rows, "PLANNED", "PLANNED")
	}
	r.now = r.at(time.Millisecond)
	r.claim(ahead(time.Second))
	for _, run := range rows {
		got := r.ledger(run.Key)
		r.hold(got.Status == schedule.StatusFailed && got.ErrorCode == string(schedule.CodeDefinitionUnreadable) && !got.CompletedAt.Before(run.FireAt),
			"it fails at fire_at, got %s %s at %s", got.Status, got.ErrorCode, got.CompletedAt)
	}
}
