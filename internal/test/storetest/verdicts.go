package storetest

import (
	"errors"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// verdicts are the clauses on what a claim transaction writes, whatever the leader
// believes, and on seen_until.
var verdicts = []check{
	{"a verdict on a run that has ended meanwhile is not written, and the others are", verdictsOnEnded},
	{"a verdict on a run that is gone is not written, nor any on its overlap group", verdictsOnGone},
	{"a run that is LAUNCHING already is not launched twice", verdictsOnClaimed},
	{"a claim is refused while another exclusive run is in flight, and the others are written", verdictsRefused},
	{"a position that no store has given is lost", verdictsWithoutPosition},
	{"a claim that is fenced off writes nothing, seen_until neither", verdictsFenced},
	{"seen_until is the claim's now, and never goes back", seenForward},
	{"seen_until does not pass a missed slot until the planner has judged it", seenBeforeMissed},
	{"seen_until survives a takeover", seenAfterTakeover},
	{"a slot that is planned for an instant that was looked at is not missed", seenBeforePlanned},
	{"a new number of shards begins with the least seen_until of all", seenByShards},
	{"a shard that has seen nothing lets no other number of shards have seen anything", seenByNoShard},
	{"a slot of another shard is missed by what its own shard has seen", seenByOwnShard},
}

// blind is the memory of a leader that has not read what was committed since, and
// never will.
func (m *memory) blind() {
	m.r.Helper()
	m.position = m.r.load().position
}

func verdictsOnEnded(r *rig) {
	r.lead()
	skip := r.create("skip", withPolicy(schedule.OverlapSkip))
	runs := r.add(r.due(r.create("ends"), 3), r.due(r.create("stays"), 2), r.due(skip, 2), r.due(skip, 1))
	m := r.load()
	cancel := schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, CompletedAt: r.now}}
	r.moveRun(runs[0].Key, cancel)
	r.moveRun(runs[3].Key, cancel)
	m.blind()
	result := m.pass()
	equal(r, "launched", launched(result), []schedule.Key{runs[1].Key})
	r.sameKeys("missing", result.Missing, runs[0].Key, runs[3].Key)
	r.stand(runs, "CANCELLED(cancelled)", "LAUNCHING", "PLANNED", "CANCELLED(cancelled)")
	equal(r, "claims in the verdicts", result.Verdicts.Claims, []schedule.Key{runs[1].Key})
	equal(r, "launched by a leader that knows", launched(r.claim()), []schedule.Key{runs[2].Key})
}

// sameKeys fails unless the keys are those, in any order.
func (r *rig) sameKeys(what string, got []schedule.Key, want ...schedule.Key) {
	r.Helper()
	found := make(map[schedule.Key]int)
	for _, key := range got {
		found[key]++
	}
	for _, key := range want {
		found[key]--
	}
	for key, n := range found {
		r.hold(n == 0, "%s: run %s is there %d times more than it should", what, key, n)
	}
}

func verdictsOnGone(r *rig) {
	r.lead()
	s := r.create("s", withPolicy(schedule.OverlapReplace))
	other := r.create("other")
	runs := r.add(r.slot(s, r.at(-2*time.Second)), r.slot(s, r.at(-time.Second)))
	single := r.add(r.due(other, 1))
	m := r.load()
	r.change(schedule.Change{Row: &s, DropPlannedAfter: r.at(-2 * time.Second)})
	m.blind()
	result := m.pass()
	equal(r, "launched", launched(result), keysOf(single))
	r.sameKeys("missing", result.Missing, runs[1].Key)
	r.stand(runs[:1], "PLANNED")
	r.hold(len(result.Skipped) == 0, "no run of the group ends, got %+v", result.Skipped)
}

func verdictsOnClaimed(r *rig) {
	r.lead()
	run := r.add(r.due(r.create("s"), 1))[0]
	m := r.load()
	equal(r, "launched", launched(r.claim()), []schedule.Key{run.Key})
	result := m.pass()
	equal(r, "launched again", launched(result), nil)
	r.sameKeys("missing", result.Missing, run.Key)
}

func verdictsRefused(r *rig) {
	r.lead()
	bad, good := r.create("bad", withPolicy(schedule.OverlapSkip)), r.create("good", withPolicy(schedule.OverlapSkip))
	allow, queue := r.create("allow"), r.create("queue", withPolicy(schedule.OverlapQueue))
	flying := r.bring(r.due(bad, 9), schedule.StatusStarted)
	r.bring(r.due(queue, 9), schedule.StatusStarted)
	runs := r.add(r.due(bad, 5), r.due(good, 5), r.due(good, 4), r.due(queue, 5), r.due(allow, 5))
	m := r.load(flying.Key)
	result := m.pass()
	r.sameKeys("refused", result.Refused, runs[0].Key)
	r.sameKeys("launched", launched(result), runs[1].Key, runs[4].Key)
	r.sameKeys("claims in the verdicts", result.Verdicts.Claims, runs[1].Key, runs[4].Key)
	r.stand(runs, "PLANNED", "LAUNCHING", "SKIPPED(overlap)", "waiting", "LAUNCHING")
	got := r.ledger(runs[0].Key)
	r.hold(got.ClaimedAt.IsZero() && got.Epoch == 0, "the refused run stays as it was, got %+v", got)
	r.hold(len(result.Missing) == 0, "nothing is missing, got %d", len(result.Missing))
}

func verdictsWithoutPosition(r *rig) {
	r.lead()
	run := r.add(r.due(r.create("s"), 1))[0]
	m := r.load()
	m.position = "position"
	_, err := m.claim(r.claimRequest())
	r.hold(errors.Is(err, ledger.ErrPositionLost), "ErrPositionLost, got %v", err)
	r.untouched(run)
	r.hold(r.seenUntil().IsZero(), "nothing is written, got %s", r.seenUntil())
}

func verdictsFenced(r *rig) {
	r.lead()
	run := r.add(r.due(r.create("s"), 1))[0]
	m, req := r.load(), r.claimRequest()
	r.lead()
	_, err := m.claim(req)
	r.hold(errors.Is(err, schedule.ErrFenced), "ErrFenced, got %v", err)
	r.untouched(run)
	r.hold(r.seenUntil().IsZero(), "nothing is written, got %s", r.seenUntil())
}

func (r *rig) sees(want time.Time, why string) {
	r.Helper()
	r.hold(r.seenUntil().Equal(want), "%s: want %s, got %s", why, want, r.seenUntil())
}

func seenForward(r *rig) {
	r.lead()
	r.sees(time.Time{}, "a new row has seen nothing")
	r.claim(limited(0))
	r.sees(r.now, "an empty claim has seen all")
	later := r.at(time.Minute)
	r.now = later
	r.claim()
	r.sees(later, "it goes on")
	r.now = r.at(-30 * time.Second)
	r.claim()
	r.sees(later, "a clock that was set back changes nothing")
}

func seenBeforeMissed(r *rig) {
	r.lead()
	s := r.create("s", planAt(r.now))
	missed := r.slot(s, r.at(-2*grace))
	r.add(missed, r.due(s, 1))
	m := r.load()
	for range 3 {
		m.pass()
		r.sees(missed.FireAt.Add(-time.Microsecond), "the missed slot has no verdict yet")
	}
	r.lead()
	r.claim()
	r.sees(missed.FireAt.Add(-time.Microsecond), "nor has it for the next leader")
	equal(r, "late rows", r.lateKeys(), []schedule.Key{missed.Key})
	r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
		d := keep(c)
		for i := range c.Late {
			d.LateVerdicts = append(d.LateVerdicts, schedule.LateVerdict{Key: c.Late[i].Key, Reason: schedule.ReasonMissed})
		}
		return d
	})
	r.claim()
	r.sees(r.now, "it was judged")
}

func seenAfterTakeover(r *rig) {
	r.lead()
	r.claim()
	seen := r.now
	r.now = r.at(time.Hour)
	r.lead()
	r.sees(seen, "what the leader before has seen")
	s := r.create("s")
	before, after := r.slot(s, seen), r.slot(s, seen.Add(time.Second))
	r.add(before, after)
	equal(r, "launched", launched(r.claim()), []schedule.Key{before.Key})
	equal(r, "late rows", r.lateKeys(), []schedule.Key{after.Key})
	r.ok(r.Resign(r.ctx, r.term, schedule.Resignation{Now: r.now}), "resign")
	r.lead()
	r.sees(after.FireAt.Add(-time.Microsecond), "what the leader that resigned has seen")
}

func seenBeforePlanned(r *rig) {
	r.lead()
	s := r.create("s", planAt(r.now))
	m := r.load()
	m.pass()
	r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
		d := keep(c)
		d.Rows = []schedule.Run{r.slot(c.Schedule, r.at(-2*grace))}
		return d
	})
	equal(r, "late rows", r.lateKeys(), nil)
	equal(r, "launched", launched(m.pass()), []schedule.Key{schedule.SlotKey(s.ScheduleID, r.at(-2*grace))})
}

// seeAll lets each term claim so long after now, in their order.
func (r *rig) seeAll(terms []schedule.Term, after ...time.Duration) {
	r.Helper()
	now := r.now
	for i, d := range after {
		r.now = now.Add(d)
		r.asTerm(terms[i], func() { r.claim() })
	}
	r.now = now
}

func (r *rig) recordShards(n int) {
	r.Helper()
	_, err := r.RecordShards(r.ctx, n)
	r.ok(err, "record the number of shards")
}

func seenByShards(r *rig) {
	r.recordShards(2)
	r.seeAll(r.split(2), time.Second, 2*time.Second)
	r.ok(r.SetShards(r.ctx, 3, r.now), "set the number of shards")
	terms := r.split(3)
	for i, want := range []time.Time{r.at(time.Second), r.at(time.Second), {}} {
		r.asTerm(terms[i], func() { r.sees(want, "the least of all, nothing for a new shard") })
	}
}

func seenByNoShard(r *rig) {
	r.recordShards(2)
	r.seeAll(r.split(2), time.Second)
	r.ok(r.SetShards(r.ctx, 1, r.now), "set the number of shards")
	r.asTerm(r.split(1)[0], func() { r.sees(time.Time{}, "one shard had seen nothing") })
}

func seenByOwnShard(r *rig) {
	terms := r.split(2)
	s := r.createIn(terms[0], "edited", planAt(r.now))
	other := r.createIn(terms[1], "other")
	late := r.add(r.slot(s, r.at(-2*grace)))[0]
	r.rewrite(s, func(s *schedule.Schedule) { s.OverlapKey = other.OverlapKey })
	r.asTerm(terms[1], func() {
		r.claim()
		r.sees(r.now, "the shard that plans the schedule now has seen all of its own")
		equal(r, "late rows of it", r.lateKeys(), []schedule.Key{late.Key})
	})
}
