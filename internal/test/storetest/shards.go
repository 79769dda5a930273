package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Each of these has a store of its own, in which several terms lead.
var shards = []check{
	{"every schedule is planned by one shard, that of its overlap key", shardsPlan},
	{"late rows bring along the schedules of the shard only", shardsLateOwners},
	{"every due row is claimed by one shard, that of its overlap key", shardsClaim},
	{"a row stays in the shard of its own overlap key when its schedule is edited", shardsAfterEdit},
	{"rows that wait are claimed by their shard", shardsWaiting},
	{"late rows of a schedule that is gone are ended by their shard", shardsOrphaned},
	{"what is left for want of Limit was seen by its shard only", shardsSeen},
	{"a launch is sent again by the shard that has it now, whichever sent it before", shardsReclaim},
	{"what the former terms of a shard left in flight is sent again by its next, beside all that others have in flight", shardsReclaimTerms},
	{"what is past its bound is ended by its shard", shardsSweep},
	{"counts and cancels are those of the shard", shardsLooks},
	{"any term may settle any run", shardsSettle},
	{"old rows are pruned whole, by whichever shard it is asked", shardsPrune},
}

// split makes the rig lead all of n shards and returns their terms.
func (r *rig) split(n int) []schedule.Term {
	r.Helper()
	terms := make([]schedule.Term, n)
	for i := range terms {
		r.terms++
		term, ok, err := r.Takeover(r.ctx, schedule.TakeoverRequest{
			Shard: i, Shards: n, Holder: fmt.Sprintf("leader-%s-%d", r.name, r.terms), TTL: 24 * time.Hour, LockHeld: true, Now: r.now,
		})
		r.ok(err, "take over a shard")
		r.hold(ok && term.Shards == n, "whoever holds the lock takes over, with his number of shards, got %v, %+v", ok, term)
		terms[i] = term
	}
	return terms
}

func of(term schedule.Term, overlapKey string) bool {
	first, last := term.Buckets()
	b := schedule.Bucket(overlapKey)
	return first <= b && b <= last
}

// createIn stores a schedule whose overlap key is of the term's shard.
func (r *rig) createIn(term schedule.Term, name string, edits ...func(*schedule.Schedule)) schedule.Schedule {
	r.Helper()
	for i := range 10_000 {
		trial := fmt.Sprintf("%s-%d", name, i)
		if s := r.schedule(trial, edits...); of(term, s.QualifiedOverlapKey()) {
			return r.create(trial, edits...)
		}
	}
	r.Fatalf("no name begins with %q and is of shard %d", name, term.Shard)
	return schedule.Schedule{}
}

// asTerm lets the rig act under another of its terms.
func (r *rig) asTerm(term schedule.Term, act func()) {
	r.Helper()
	mine := r.term
	defer func() { r.term = mine }()
	r.term = term
	act()
}

func shardsPlan(r *rig) {
	const n = 3
	terms := r.split(n)
	want := make([][]string, n)
	for i := range 30 {
		s := r.create(fmt.Sprintf("s-%02d", i), planAt(r.at(-time.Duration(100-i)*time.Second)))
		shard := slices.IndexFunc(terms, func(t schedule.Term) bool { return of(t, s.QualifiedOverlapKey()) })
		want[shard] = append(want[shard], s.ScheduleID)
	}
	for i, term := range terms {
		r.hold(len(want[i]) > 0, "shard %d has something to plan", i)
		r.asTerm(term, func() { equal(r, fmt.Sprintf("candidates of shard %d", i), idsOf(r.look()), want[i]) })
	}
}

func shardsLateOwners(r *rig) {
	terms := r.split(2)
	var schedules []schedule.Schedule
	for i, term := range terms {
		s := r.createIn(term, fmt.Sprint("late-", i))
		r.add(r.slot(s, r.at(-2*grace)))
		schedules = append(schedules, s)
	}
	for i, term := range terms {
		r.asTerm(term, func() {
			seen := r.look()
			equal(r, "candidates", idsOf(seen), []string{schedules[i].ScheduleID})
			r.hold(len(seen[0].Late) == 1, "its late row comes along, got %d", len(seen[0].Late))
		})
	}
}

func shardsClaim(r *rig) {
	const n = 3
	terms := r.split(n)
	want := make([][]schedule.Key, n)
	for i := range 30 {
		policy := []schedule.OverlapPolicy{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue}[i%3]
		s := r.create(fmt.Sprint("s-", i), withPolicy(policy))
		run := r.add(r.slot(s, r.at(-time.Duration(40-i)*time.Second)))[0]
		shard := slices.IndexFunc(terms, func(t schedule.Term) bool { return of(t, run.OverlapKey) })
		want[shard] = append(want[shard], run.Key)
	}
	for i, term := range terms {
		r.hold(len(want[i]) > 0, "shard %d has something to claim", i)
		r.asTerm(term, func() {
			result := r.claim()
			equal(r, fmt.Sprintf("launched by shard %d", i), launched(result), want[i])
			r.hold(!result.More, "what is of other shards is not left behind")
		})
	}
}

// shardsAfterEdit has two schedules that come to share one overlap key: the row
// of the time before is still judged where its own key is.
func shardsAfterEdit(r *rig) {
	terms := r.split(2)
	s := r.createIn(terms[0], "edited", withPolicy(schedule.OverlapSkip))
	other := r.createIn(terms[1], "other", withPolicy(schedule.OverlapSkip))
	before := r.add(r.manual(s, "before", r.at(-time.Second)))[0]
	s = r.revise(s, func(s *schedule.Schedule) { s.OverlapKey, s.PlanAt = other.OverlapKey, r.now })
	after := r.add(r.manual(s, "after", r.at(-time.Second)))[0]
	r.asTerm(terms[0], func() {
		equal(r, "candidates of the old shard", idsOf(r.look()), nil)
		equal(r, "launched by the old shard", launched(r.claim()), []schedule.Key{before.Key})
	})
	r.asTerm(terms[1], func() {
		equal(r, "candidates of the new shard", idsOf(r.look()), []string{s.ScheduleID})
		equal(r, "launched by the new shard", launched(r.claim()), []schedule.Key{after.Key})
	})
}

func shardsWaiting(r *rig) {
	const n = 4
	terms := r.split(n)
	want := make([]schedule.Key, n)
	for i, term := range terms {
		s := r.createIn(term, fmt.Sprint("queue-", i), withPolicy(schedule.OverlapQueue))
		first := r.slot(s, r.at(-time.Minute), func(run *schedule.Run) { run.WaitingSince = r.at(-time.Second) })
		second := r.slot(s, r.at(-time.Second), func(run *schedule.Run) { run.WaitingSince = r.at(-time.Second) })
		r.add(first, second)
		want[i] = first.Key
	}
	for i, term := range terms {
		r.asTerm(term, func() {
			equal(r, fmt.Sprintf("launched by shard %d", i), launched(r.claim()), want[i:i+1])
			equal(r, "launched while that is in flight", launched(r.claim()), nil)
		})
	}
}

func shardsOrphaned(r *rig) {
	terms := r.split(2)
	var runs []schedule.Run
	for i, term := range terms {
		s := r.createIn(term, fmt.Sprint("gone-", i))
		runs = append(runs, r.add(r.slot(s, r.at(-2*grace)))...)
		r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.at(-time.Second) })
	}
	for i, term := range terms {
		r.asTerm(term, func() {
			result := r.claim()
			r.hold(len(result.Skipped) == 1 && result.Skipped[0].Key == runs[i].Key, "shard %d ends its own, got %+v", i, result.Skipped)
		})
	}
}

func shardsSeen(r *rig) {
	terms := r.split(2)
	for i, term := range terms {
		r.add(r.slot(r.createIn(term, fmt.Sprint("left-", i)), r.at(-time.Second)))
	}
	r.asTerm(terms[0], func() {
		r.claim(limited(0))
		r.hold(r.seenUntil().Equal(r.now), "its own shard has seen it, got %s", r.seenUntil())
	})
	r.asTerm(terms[1], func() { r.hold(r.seenUntil().IsZero(), "the other shard has seen nothing, got %s", r.seenUntil()) })
}

// shardsReclaim changes the number of shards while launches are open: the one who
// leads their buckets then takes all of them over, and nobody else any.
func shardsReclaim(r *rig) {
	terms := r.split(2)
	var keys []schedule.Key
	for i := range 20 {
		keys = append(keys, r.add(r.slot(r.create(fmt.Sprint("open-", i)), r.now))[0].Key)
	}
	for _, term := range terms {
		r.asTerm(term, func() { r.claim() })
	}
	r.ok(r.SetShards(r.ctx, 3, r.now), "set the number of shards")
	var again []schedule.Key
	for _, term := range r.split(3) {
		r.asTerm(term, func() {
			for _, l := range r.reclaim() {
				r.hold(of(term, l.Run.OverlapKey), "shard %d sends again what is its own", term.Shard)
				again = append(again, l.Run.Key)
			}
		})
	}
	slices.SortFunc(keys, compareKeys)
	slices.SortFunc(again, compareKeys)
	equal(r, "sent again by all", again, keys)
}

func shardsReclaimTerms(r *rig) {
	const n = 3
	left := make([][]schedule.Key, n)
	for round := range 2 {
		for i, term := range r.split(n) {
			s := r.createIn(term, fmt.Sprintf("left-%d-%d", round, i))
			left[i] = append(left[i], r.add(r.slot(s, r.at(time.Duration(round-9)*time.Second)))[0].Key)
			r.asTerm(term, func() { r.claim() })
		}
	}
	for i, term := range r.split(n) {
		r.asTerm(term, func() {
			equal(r, fmt.Sprintf("sent again by shard %d", i), keysOfLaunches(r.reclaim()), left[i])
			equal(r, "sent again by it once more", keysOfLaunches(r.reclaim()), nil)
		})
	}
}

func shardsSweep(r *rig) {
	terms := r.split(2)
	for name, past := range map[string]func(run schedule.Run){
		"timeout": func(run schedule.Run) {
			r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusStarted, TimeoutAt: r.at(time.Second)})
		},
		"cancel":     func(run schedule.Run) { r.askCancel(run.Key, schedule.ReasonCancelled, r.now) },
		"never sent": func(schedule.Run) {},
	} {
		var runs []schedule.Run
		for _, term := range terms {
			r.asTerm(term, func() {
				run := r.bring(r.slot(r.createIn(term, name[:3]), r.now), schedule.StatusLaunching)
				past(run)
				runs = append(runs, run)
			})
		}
		r.now = r.at(retryFor + time.Second)
		for i, term := range terms {
			r.asTerm(term, func() {
				ended := r.sweep()
				r.hold(len(ended) == 1 && ended[0].Run.Key == runs[i].Key, "%s: shard %d ends its own, got %+v", name, i, ended)
			})
		}
		r.now = r.now.Truncate(time.Second)
	}
}

func shardsLooks(r *rig) {
	terms := r.split(2)
	for i, term := range terms {
		r.asTerm(term, func() {
			s := r.createIn(term, fmt.Sprint("seen-", i))
			flying := r.bring(r.slot(s, r.now), schedule.StatusStarted)
			r.askCancel(flying.Key, schedule.ReasonCancelled, r.now)
			for j := range i + 1 {
				r.add(r.manual(s, fmt.Sprint("due-", j), r.at(-time.Second)))
				r.add(r.manual(s, fmt.Sprint("waits-", j), r.at(-time.Second), func(run *schedule.Run) { run.WaitingSince = r.now }))
			}
			r.add(r.slot(s, r.at(time.Duration(5-i)*time.Minute)))
		})
	}
	for i, term := range terms {
		r.asTerm(term, func() {
			m := r.load()
			m.read()
			equal(r, fmt.Sprintf("counts of shard %d", i), m.state.Counts(), schedule.Gauges{InFlight: 1, Waiting: i + 1, Due: i + 1})
		})
		r.asTerm(term, func() {
			cancels, err := r.CancelRequests(r.ctx, r.load().state.CancelsDue(r.now, 10, func(schedule.Key) time.Time { return time.Time{} }))
			r.ok(err, "read requested cancels")
			r.hold(len(cancels) == 1 && of(term, cancels[0].OverlapKey), "shard %d sends its own cancel, got %d", i, len(cancels))
		})
	}
}

func shardsSettle(r *rig) {
	terms := r.split(2)
	var run schedule.Run
	r.asTerm(terms[0], func() { run = r.bring(r.slot(r.createIn(terms[0], "one"), r.now), schedule.StatusLaunching) })
	r.asTerm(terms[1], func() {
		r.hold(r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess})[0], "an answer counts whoever got it")
	})
}

func shardsPrune(r *rig) {
	terms := r.split(2)
	for i, term := range terms {
		r.asTerm(term, func() { r.bring(r.slot(r.createIn(term, fmt.Sprint("old-", i)), r.now), schedule.StatusSuccess) })
	}
	n, err := r.Prune(r.ctx, terms[0], r.at(time.Hour), 100)
	r.ok(err, "prune")
	r.hold(n >= 2, "the rows of both shards are pruned, got %d", n)
}
