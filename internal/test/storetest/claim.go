package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var claims = []check{
	{"due is what has a fire_at that is not after now", claimDue},
	{"rows go in order: on time first, then priority, fire_at, run_at, key", claimOrder},
	{"a claimed row carries the marks of its claim", claimMarks},
	{"a claim that waits for its turn has the time at which it has read what has ended", claimAfterAnEnd},
	{"a LAUNCHING row is bounded by the larger of retry time and run timeout", claimBound},
	{"never more than Limit are claimed, and More says that some are left", claimLimit},
	{"the limit holds for judged rows too", claimLimitJudged},
	{"what is left for want of Limit was seen and can no longer be missed", claimSeesTheRest},
	{"without free launches a claim launches nothing", claimWithoutLaunches},
	{"missable rows later than the grace are the planner's", claimLeavesLateRows},
	{"rows of a deleted schedule end CANCELLED(deleted)", claimDeleted},
	{"slots of a paused schedule end SKIPPED(paused), other rows run", claimPaused},
	{"late rows end with their schedule too: no planner would come for them", claimLateAndHalted},
	{"a pause that has run out holds nothing back", claimAfterPause},
	{"a run whose definition is gone ends and holds up no other", claimWithoutDefinition},
	{"only PLANNED rows are claimed", claimOnlyPlanned},
	{"a run is claimed only as it was judged: of that revision, and not before its fire_at", claimAsJudged},
	{"with nothing due nothing happens", claimNothing},
	{"the cancels of runs in flight are known to the leader, and read oldest first", cancelsDue},
}

func claimDue(r *rig) {
	r.lead()
	s := r.create("due")
	before, exactly, after := r.slot(s, r.at(-time.Second)), r.slot(s, r.now), r.slot(s, r.at(time.Second), func(run *schedule.Run) {
		run.FireAt = r.at(time.Microsecond)
	})
	drawn := r.slot(s, r.at(10*time.Second), func(run *schedule.Run) { run.FireAt = r.at(-time.Microsecond) }) // jitter
	r.add(after, exactly, drawn, before)
	result := r.claim()
	equal(r, "launched", launched(result), []schedule.Key{before.Key, drawn.Key, exactly.Key})
	r.hold(!result.More, "nothing due is left")
	r.now = r.at(time.Microsecond)
	equal(r, "launched a microsecond later", launched(r.claim()), []schedule.Key{after.Key})
}

func claimOrder(r *rig) {
	r.lead()
	s := r.create("order")
	n := 0
	row := func(trigger schedule.Trigger, priority int32, fire, nominal time.Duration) schedule.Run {
		n++
		return r.manual(s, fmt.Sprint("row-", n), r.at(nominal), func(run *schedule.Run) {
			run.Trigger, run.Priority, run.FireAt = trigger, priority, r.at(fire)
		})
	}
	s2, s1 := -2*time.Second, -time.Second
	twins := []schedule.Run{row(schedule.TriggerSchedule, 0, s1, s1), row(schedule.TriggerSchedule, 0, s1, s1), row(schedule.TriggerManual, 0, s1, s1)}
	slices.SortFunc(twins, byInstant)
	want := []schedule.Run{
		row(schedule.TriggerSchedule, 1000, s1, s1),
		row(schedule.TriggerRetry, 1, s1, s1),
		row(schedule.TriggerManual, 0, s2, s1),
		row(schedule.TriggerSchedule, 0, s1, s2),
		twins[0], twins[1], twins[2],
		row(schedule.TriggerSchedule, -1, s2, s2),
		row(schedule.TriggerBackfill, 1000, s1, s1),
		row(schedule.TriggerCatchup, 5, s2, s2),
		row(schedule.TriggerBackfill, 5, s2, s1),
		row(schedule.TriggerCatchup, 0, s2, s2),
	}
	stored := slices.Clone(want)
	slices.SortFunc(stored, byInstant) // any other order than the one expected
	r.add(stored...)
	var got []schedule.Key
	for range want {
		got = append(got, launched(r.claim(func(req *claimRequest) { req.Limit = 1 }))...)
	}
	names := map[schedule.Key]string{}
	for i, run := range want {
		names[run.Key] = fmt.Sprintf("%d %s priority %d", i, run.Trigger, run.Priority)
	}
	for i, key := range got {
		r.hold(key == want[i].Key, "place %d is %q, got %q", i, names[want[i].Key], names[key])
	}
	r.hold(len(got) == len(want), "all are claimed, got %d", len(got))
}

func claimMarks(r *rig) {
	r.lead()
	s := r.create("marked")
	want := r.slot(s, r.at(-time.Second), func(run *schedule.Run) { run.CreatedAt, run.UpdatedAt = r.at(-time.Hour), r.at(-time.Hour) })
	r.change(schedule.Change{ScheduleID: s.ScheduleID, Runs: []schedule.Run{want}, Now: r.at(-time.Hour)})
	r.claim()

	want.Status, want.Epoch = schedule.StatusLaunching, r.term.Epoch
	want.ClaimedAt, want.ClaimedUntil, want.TimeoutAt, want.UpdatedAt = r.now, r.at(lease), r.at(retryFor), r.now
	got := r.ledger(want.Key)
	equal(r, "runs", got, want)
	r.hold(r.row(s).LastRunAt.IsZero(), "a claim is no launch yet")
}

// claimAfterAnEnd: C19 compares claimed_at with the ends of other runs.
func claimAfterAnEnd(r *rig) {
	r.lead()
	s := r.create("waits")
	run := r.slot(s, r.at(-time.Second))
	r.add(run)
	began, read := r.now, r.at(700*time.Millisecond)
	m := r.load()
	result := m.pass(func(req *claimRequest) { req.Clock = func() time.Time { return read } })
	r.now = read
	want := []time.Time{read, r.at(lease), r.at(retryFor), read}
	for what, got := range map[string]schedule.Run{"the row": r.ledger(run.Key), "the launch": result.Launches[0].Run} {
		equal(r, what, []time.Time{got.ClaimedAt, got.ClaimedUntil, got.TimeoutAt, got.UpdatedAt}, want)
	}
	known, _ := m.state.Run(run.Key)
	r.hold(known.NextSend.Equal(r.at(lease)), "the state sends it again at %s, want %s", known.NextSend, r.at(lease))
	r.hold(!result.Verdicts.SeenUntil.After(began), "what fired while it waited was not seen, got %s", result.Verdicts.SeenUntil)
}

func claimBound(r *rig) {
	r.lead()
	plain := r.create("plain", func(s *schedule.Schedule) { s.RunTimeoutMS = 7_200_000 })
	own := r.create("own", func(s *schedule.Schedule) { s.LaunchTimeoutMS = 5000 })
	late, ahead := r.slot(plain, r.at(-30*time.Second)), r.slot(own, r.at(time.Second))
	byPlain, byOwn := r.slot(plain, r.now), r.slot(own, r.now)
	r.add(late, ahead, byPlain, byOwn)
	r.revise(own, func(s *schedule.Schedule) { s.LaunchTimeoutMS = 1000 }) // its revision counts, not the one in force
	r.claim(func(req *claimRequest) { req.ClaimAhead = 2 * time.Second })
	for _, tt := range []struct {
		says string
		run  schedule.Run
		want time.Time
	}{
		{"a launch is given up RetryFor after its fire time, whatever the run timeout", byPlain, r.at(retryFor)},
		{"one that is claimed late, after its claim", late, r.at(retryFor)},
		{"one with a launch timeout of its schedule, after that", byOwn, r.at(5 * time.Second)},
		{"one that is claimed ahead, after its fire time", ahead, r.at(6 * time.Second)},
	} {
		got := r.ledger(tt.run.Key).TimeoutAt
		r.hold(got.Equal(tt.want), "%s: want %s, got %s", tt.says, tt.want, got)
	}
}

func claimLimit(r *rig) {
	r.lead()
	s := r.create("many")
	var rows []schedule.Run
	for i := range 5 {
		rows = append(rows, r.slot(s, r.at(-time.Duration(5-i)*time.Second)))
	}
	r.add(rows...)
	limit := func(req *claimRequest) { req.Limit = 2 }
	for _, want := range []struct {
		keys []schedule.Key
		more bool
	}{{keysOf(rows[:2]), true}, {keysOf(rows[2:4]), true}, {keysOf(rows[4:]), false}, {nil, false}} {
		got := r.claim(limit)
		equal(r, "launched", launched(got), want.keys)
		r.hold(got.More == want.more, "More is %v after %d launches, got %v", want.more, len(want.keys), got.More)
	}
}

func claimLimitJudged(r *rig) {
	r.lead()
	for i := range 5 {
		s := r.create(fmt.Sprint("skip-", i), withPolicy(schedule.OverlapSkip))
		r.add(r.slot(s, r.at(-time.Duration(i)*time.Second)))
	}
	total := 0
	for range 5 {
		got := len(r.claim(func(req *claimRequest) { req.Limit = 2 }).Launches)
		r.hold(got <= 2, "at most two are claimed, got %d", got)
		total += got
	}
	r.hold(total == 5, "all are claimed in the end, got %d", total)
}

func claimSeesTheRest(r *rig) {
	r.lead()
	s := r.create("many")
	seen := r.slot(s, r.at(-20*time.Second))
	r.add(seen)
	result := r.claim(limited(0))
	r.hold(len(result.Launches) == 0 && result.More, "nothing is free, got %d launches, More %v", len(result.Launches), result.More)
	r.hold(r.seenUntil().Equal(r.now), "seen_until is now, got %s", r.seenUntil())
	r.untouched(seen)

	r.now = r.at(time.Hour) // far past the grace
	future := r.slot(s, r.at(-2*grace))
	r.add(future)
	equal(r, "late rows an hour later", r.lateKeys(), keysOf([]schedule.Run{future}))
	r.lead()
	equal(r, "launched by the next leader", launched(r.claim()), []schedule.Key{seen.Key})
}

// lateKeys are the runs that the planner is to judge.
func (r *rig) lateKeys() (keys []schedule.Key) {
	r.Helper()
	for _, c := range r.look() {
		keys = append(keys, keysOf(c.Late)...)
	}
	return keys
}

func claimWithoutLaunches(r *rig) {
	r.lead()
	s := r.create("full", withPolicy(schedule.OverlapSkip))
	first, second := r.slot(s, r.at(-2*time.Second)), r.slot(s, r.at(-time.Second))
	r.add(first, second)
	result := r.claim(func(req *claimRequest) { req.Limit = 0 })
	r.hold(len(result.Launches) == 0 && result.More, "no launch, but More, got %+v", result)
	for _, run := range []schedule.Run{first, second} {
		got := r.ledger(run.Key)
		r.hold(got.Status == schedule.StatusPlanned, "rows stay PLANNED, got %s(%s)", got.Status, got.Reason)
	}
}

func claimLeavesLateRows(r *rig) {
	r.lead()
	s := r.create("late")
	boundary := r.slot(s, r.at(-grace))
	late := r.slot(s, r.at(-grace-time.Microsecond))
	caughtUp := r.slot(s, r.at(-3*grace), func(run *schedule.Run) { run.Trigger = schedule.TriggerCatchup })
	byHand := r.manual(s, "m", r.at(-4*grace))
	drawn := r.slot(s, r.at(-time.Second), func(run *schedule.Run) { run.FireAt = r.at(-2 * grace) }) // late counts from run_at here
	r.add(boundary, late, caughtUp, byHand, drawn)

	result := r.claim()
	got := launched(result)
	for name, run := range map[string]schedule.Run{"on the boundary": boundary, "caught up": caughtUp, "by hand": byHand, "drawn early": drawn} {
		r.hold(slices.Contains(got, run.Key), "the row %s is claimed", name)
	}
	r.hold(len(got) == 4, "the late one is not, got %d", len(got))
	r.hold(!result.More, "what is the planner's is not More")
	equal(r, "late rows", r.ledger(late.Key), late)
}

// withPolicy sets a schedule's overlap policy.
func withPolicy(p schedule.OverlapPolicy) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) { s.OverlapPolicy = p }
}
