package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// sharedOrder are the clauses on Capacity: how owners share what can be launched.
var sharedOrder = []check{
	{"an owner gets no more than his capacity, in the usual order, and More says so", sharedRoom},
	{"owners whose ids have a slash do not share capacity", sharedOwnersWithSlash},
	{"the others are not held up by an owner without capacity", sharedNoRoom},
	{"an owner with thousands of due rows does not hold up the one row of another", sharedStorm},
	{"owners take turns: the first of each goes before the second of any", ownersAlternate},
	{"within a turn it goes by priority and fire_at", sharedOrderWithinATurn},
	{"what is on time goes before anybody's catch-up, and what is due before what is armed", sharedClasses},
	{"capacity counts where more is due than the limit, too", sharedRoomBeyondLimit},
	{"a row that waits needs capacity as well, and has its owner's turn", sharedWaiting},
	{"rows of exclusive policies take their owner's turn", sharedExclusive},
	{"what an owner has no capacity for was seen and can no longer be missed", sharedSeen},
	{"all rows of an overlap key are judged, also those beyond the capacity", sharedJudgeBeyond},
	{"priorities of one owner go in order, also where others take turns", prioritiesOfAnOwner},
	{"who is alone gets all of it, in the usual order", sharedAlone},
	{"without Capacity owners take turns all the same", ownersWithoutCapacity},
}

// owned is a schedule of another owner.
func (r *rig) owned(owner, name string, edits ...func(*schedule.Schedule)) schedule.Schedule {
	r.Helper()
	edits = append([]func(*schedule.Schedule){func(s *schedule.Schedule) { s.UserID = r.id(owner) }}, edits...)
	return r.create(name, edits...)
}

// owes stores n due rows of a schedule, the oldest so long before now, each a
// second after the one before.
func (r *rig) owes(s schedule.Schedule, n int, before time.Duration, edits ...func(*schedule.Run)) []schedule.Run {
	r.Helper()
	rows := make([]schedule.Run, n)
	for i := range rows {
		rows[i] = r.manual(s, fmt.Sprintf("%s-%d", before, i), r.at(time.Duration(i)*time.Second-before), edits...)
	}
	return r.add(rows...)
}

// capacities are the capacities of owners by their short names; who is not named has any.
func (r *rig) capacities(of map[string]int) func(*claimRequest) {
	return func(req *claimRequest) {
		req.Capacity = func(owner string) int {
			for name, n := range of {
				if owner == r.id(name) {
					return n
				}
			}
			return 1 << 30
		}
	}
}

func limited(n int) func(*claimRequest) {
	return func(req *claimRequest) { req.Limit = n }
}

func sharedRoom(r *rig) {
	r.lead()
	rows := r.owes(r.owned("a", "s"), 5, time.Minute)
	for i, want := range [][]schedule.Run{rows[:2], rows[2:4], rows[4:], nil} {
		result := r.claim(r.capacities(map[string]int{"a": 2}))
		equal(r, "launched", launched(result), keysOf(want))
		r.hold(result.More == (i < 2), "More is %v after claim %d, got %v", i < 2, i+1, result.More)
	}
}

// An owner id can be a URL. What stands before its first slash is no owner.
func sharedOwnersWithSlash(r *rig) {
	r.lead()
	full := r.owes(r.owned("org/ada", "full"), 30, time.Minute)
	free := r.owes(r.owned("org/bob", "free"), 3, 30*time.Second)
	whole := r.owes(r.owned("org", "whole"), 2, 20*time.Second)
	for _, want := range [][]schedule.Run{{free[0], free[1], whole[0]}, {free[2], whole[1]}, nil} {
		equal(r, "launched", launched(r.claim(r.capacities(map[string]int{"org/ada": 0}), limited(3))), keysOf(want))
	}
	equal(r, "launched with capacity for two", launched(r.claim(r.capacities(map[string]int{"org/ada": 2}))), keysOf(full[:2]))
}

func sharedNoRoom(r *rig) {
	r.lead()
	full := r.owes(r.owned("a", "full"), 3, time.Minute)
	free := r.owes(r.owned("b", "free"), 3, 30*time.Second)
	result := r.claim(r.capacities(map[string]int{"a": 0}))
	equal(r, "launched", launched(result), keysOf(free))
	r.hold(result.More, "what is left for want of capacity is More")
	for _, run := range full {
		got := r.ledger(run.Key)
		r.hold(got.Status == schedule.StatusPlanned && got.FireAt.Equal(run.FireAt), "it stays PLANNED as it was, got %s at %s", got.Status, got.FireAt)
	}
	equal(r, "launched with less than no capacity", launched(r.claim(r.capacities(map[string]int{"a": -3}))), nil)
	equal(r, "launched once there is capacity", launched(r.claim(r.capacities(nil))), keysOf(full))
}

func sharedStorm(r *rig) {
	r.lead()
	storm := r.owes(r.owned("a", "storm", func(s *schedule.Schedule) { s.Priority = 9 }), 3000, time.Hour)
	one := r.owes(r.owned("b", "one"), 1, time.Second)
	result := r.claim(r.capacities(nil), limited(10))
	got := launched(result)
	r.hold(slices.Contains(got, one[0].Key), "the one row is among the first ten")
	equal(r, "launched of the storm", slices.DeleteFunc(got, func(k schedule.Key) bool { return k == one[0].Key }), keysOf(storm[:9]))
	r.hold(result.More, "there is more")
}

func ownersAlternate(r *rig) {
	r.lead()
	a := r.owes(r.owned("a", "s-a"), 4, time.Minute)
	b := r.owes(r.owned("b", "s-b"), 2, 40*time.Second)
	c := r.owes(r.owned("c", "s-c"), 4, 20*time.Second)
	var got []schedule.Key
	for range 10 {
		got = append(got, launched(r.claim(r.capacities(nil), limited(1)))...)
	}
	// Each claim begins a round of its own; what is claimed together shows turns.
	equal(r, "launched one by one", got, keysOf(slices.Concat(a, b, c)))

	a, b, c = r.owes(r.owned("a", "t-a"), 4, time.Minute), r.owes(r.owned("b", "t-b"), 2, 40*time.Second), r.owes(r.owned("c", "t-c"), 4, 20*time.Second)
	for _, want := range [][]schedule.Run{{a[0], a[1], b[0], b[1], c[0]}, {a[2], a[3], c[1], c[2], c[3]}} {
		equal(r, "launched five at a time", launched(r.claim(r.capacities(nil), limited(5))), keysOf(want))
	}
}

func sharedOrderWithinATurn(r *rig) {
	r.lead()
	low := r.owes(r.owned("a", "low"), 2, time.Hour)
	high := r.owes(r.owned("b", "high", func(s *schedule.Schedule) { s.Priority = 5 }), 2, time.Minute)
	newer := r.owes(r.owned("c", "newer"), 2, time.Second)
	want := [][]schedule.Run{{high[0]}, {high[1]}, {low[0], newer[0]}}
	for i, limit := range []int{1, 1, 2} {
		equal(r, "launched", launched(r.claim(r.capacities(nil), limited(limit))), keysOf(want[i]))
	}
}

func sharedClasses(r *rig) {
	r.lead()
	catchup := func(run *schedule.Run) { run.Trigger = schedule.TriggerCatchup }
	old := r.owes(r.owned("a", "old"), 2, time.Hour, catchup)
	onTime := r.owes(r.owned("b", "on-time"), 3, time.Minute)
	soon := r.owes(r.owned("c", "soon"), 1, -time.Millisecond)
	ahead := func(req *claimRequest) { req.ClaimAhead = 100 * time.Millisecond }
	for _, want := range [][]schedule.Run{onTime[:2], {onTime[2], old[0]}, {old[1], soon[0]}} {
		equal(r, "launched", launched(r.claim(r.capacities(nil), limited(2), ahead)), keysOf(want))
	}
}

func sharedRoomBeyondLimit(r *rig) {
	r.lead()
	a := r.owes(r.owned("a", "s-a"), 20, time.Hour)
	b := r.owes(r.owned("b", "s-b"), 20, time.Minute)
	result := r.claim(r.capacities(map[string]int{"a": 2}), limited(6))
	equal(r, "launched", launched(result), keysOf(slices.Concat(a[:2], b[:4])))
	r.hold(result.More, "there is more")
	result = r.claim(r.capacities(map[string]int{"a": 2, "b": 1}), limited(6))
	equal(r, "launched by the capacity of both", launched(result), keysOf(slices.Concat(a[2:4], b[4:5])))
	r.hold(result.More, "there is more")
	equal(r, "launched without any capacity", launched(r.claim(r.capacities(map[string]int{"a": 0, "b": 0}), limited(6))), nil)
}

func sharedWaiting(r *rig) {
	r.lead()
	waits := func(run *schedule.Run) { run.WaitingSince = r.at(-time.Second) }
	s := r.owned("a", "queue", withPolicy(schedule.OverlapQueue))
	first := r.owes(s, 1, time.Minute, waits)
	storm := r.owes(r.owned("b", "storm"), 20, time.Hour)
	equal(r, "launched without capacity for it", launched(r.claim(r.capacities(map[string]int{"a": 0, "b": 1}), limited(3))), keysOf(storm[:1]))
	got := launched(r.claim(r.capacities(nil), limited(3)))
	equal(r, "launched in turn", got, keysOf(slices.Concat(storm[1:3], first)))
}

func sharedExclusive(r *rig) {
	r.lead()
	var rows []schedule.Run
	for i := range 12 {
		rows = append(rows, r.owes(r.owned("a", fmt.Sprint("skip-", i), withPolicy(schedule.OverlapSkip)), 1, time.Hour)...)
	}
	one := r.owes(r.owned("b", "one", withPolicy(schedule.OverlapSkip)), 1, time.Second)
	got := launched(r.claim(r.capacities(map[string]int{"a": 3}), limited(8)))
	r.hold(slices.Contains(got, one[0].Key) && len(got) == 4, "three of one and one of the other, got %d", len(got))
	for _, run := range rows {
		status := r.ledger(run.Key).Status
		r.hold(status == schedule.StatusLaunching || status == schedule.StatusPlanned, "who is left stays PLANNED, got %s", status)
	}
}

func sharedSeen(r *rig) {
	r.lead()
	s := r.owned("a", "full")
	rows := r.add(r.slot(s, r.at(-2*time.Second)), r.slot(s, r.at(-time.Second)))
	r.claim(r.capacities(map[string]int{"a": 1}))
	got := r.ledger(rows[1].Key)
	r.hold(got.Status == schedule.StatusPlanned && r.seenUntil().Equal(r.now), "it is PLANNED and was seen, got %s, seen until %s", got.Status, r.seenUntil())
	r.now = r.at(time.Hour)
	equal(r, "launched an hour later", launched(r.claim(r.capacities(nil))), keysOf(rows[1:]))
}

func sharedJudgeBeyond(r *rig) {
	r.lead()
	r.owes(r.owned("a", "full"), 30, time.Minute)
	shared := func(s *schedule.Schedule) { s.OverlapKey, s.OverlapPolicy = r.id("shared"), schedule.OverlapSkip }
	first, second := r.owes(r.owned("b", "first", shared), 2, 30*time.Second), r.owes(r.owned("b", "second", shared), 2, 20*time.Second)
	result := r.claim(r.capacities(map[string]int{"a": 0, "b": 1}), limited(5))
	equal(r, "launched", launched(result), keysOf(first[:1]))
	for _, run := range slices.Concat(first[1:], second) {
		r.ended(result, run.Key, schedule.StatusSkipped, schedule.ReasonOverlap)
	}
}

func prioritiesOfAnOwner(r *rig) {
	r.lead()
	r.owes(r.owned("b", "other"), 30, time.Minute)
	priority := func(p int32) func(*schedule.Schedule) { return func(s *schedule.Schedule) { s.Priority = p } }
	low := r.owes(r.owned("a", "low", priority(-1000)), 2, time.Hour)
	high := r.owes(r.owned("a", "high", priority(1000)), 2, time.Second)
	mid := r.owes(r.owned("a", "mid"), 2, time.Minute)
	old := r.owes(r.owned("a", "old", priority(1000)), 2, time.Hour, func(run *schedule.Run) { run.Trigger = schedule.TriggerCatchup })
	for _, want := range [][]schedule.Run{{high[0], high[1], mid[0]}, {mid[1], low[0], low[1]}, old} {
		equal(r, "launched", launched(r.claim(r.capacities(map[string]int{"a": 3, "b": 0}), limited(5))), keysOf(want))
	}
}

func sharedAlone(r *rig) {
	r.lead()
	rows := r.owes(r.owned("a", "s"), 7, time.Minute)
	first := r.owes(r.owned("a", "first", func(s *schedule.Schedule) { s.Priority = 1 }), 1, time.Second)
	want := slices.Concat(first, rows)
	for _, part := range [][]schedule.Run{want[:3], want[3:6], want[6:]} {
		equal(r, "launched", launched(r.claim(r.capacities(map[string]int{"a": 100}), limited(3))), keysOf(part))
	}
}

func ownersWithoutCapacity(r *rig) {
	r.lead()
	a := r.owes(r.owned("a", "s-a"), 3, time.Hour)
	b := r.owes(r.owned("b", "s-b"), 1, time.Minute)
	equal(r, "launched first", launched(r.claim(limited(3))), keysOf([]schedule.Run{a[0], a[1], b[0]}))
	equal(r, "launched next", launched(r.claim(limited(3))), keysOf(a[2:]))
}
