package storetest

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func listRunsFiltered(r *rig) {
	r.lead()
	s := r.create("filtered")
	foreign := r.create("foreign", func(s *schedule.Schedule) { s.UserID, s.WorkflowID = r.id("foreign"), r.id("other") })
	reason := func(reason schedule.Reason) func(*schedule.Settlement) {
		return func(st *schedule.Settlement) { st.Reason = reason }
	}
	skipped := r.bring(r.due(s, 50), schedule.StatusSkipped, reason(schedule.ReasonOverlap))
	failed := r.bring(r.due(s, 40), schedule.StatusFailed, reason(schedule.ReasonTimeout))
	started := r.bring(r.manual(s, "m", r.at(-30*time.Second)), schedule.StatusStarted)
	theirs := r.bring(r.due(foreign, 20), schedule.StatusFailed, reason(schedule.ReasonLost))
	planned := r.add(r.due(s, 10))[0]

	for _, c := range []struct {
		name   string
		filter schedule.RunFilter
		want   []schedule.Run
	}{
		{"of everybody", schedule.RunFilter{}, []schedule.Run{planned, theirs, started, failed, skipped}},
		{"of a schedule", schedule.RunFilter{ScheduleID: s.ScheduleID}, []schedule.Run{planned, started, failed, skipped}},
		{"of an owner", schedule.RunFilter{UserID: foreign.UserID}, []schedule.Run{theirs}},
		{"of a workflow", schedule.RunFilter{WorkflowID: s.WorkflowID}, []schedule.Run{planned, started, failed, skipped}},
		{"of a schedule and its owner", schedule.RunFilter{ScheduleID: s.ScheduleID, UserID: foreign.UserID}, nil},
		{"of one status", schedule.RunFilter{Statuses: []schedule.Status{schedule.StatusFailed}}, []schedule.Run{theirs, failed}},
		{"of two statuses", schedule.RunFilter{Statuses: []schedule.Status{schedule.StatusFailed, schedule.StatusStarted}}, []schedule.Run{theirs, started, failed}},
		{"with a reason", schedule.RunFilter{Reason: schedule.ReasonTimeout}, []schedule.Run{failed}},
		{"with a trigger", schedule.RunFilter{Trigger: schedule.TriggerManual}, []schedule.Run{started}},
		{"from, inclusive", schedule.RunFilter{From: started.RunAt}, []schedule.Run{planned, theirs, started}},
		{"to, exclusive", schedule.RunFilter{To: started.RunAt}, []schedule.Run{failed, skipped}},
		{"from and to", schedule.RunFilter{From: failed.RunAt, To: theirs.RunAt}, []schedule.Run{started, failed}},
		{"with everything", schedule.RunFilter{
			ScheduleID: s.ScheduleID, UserID: s.UserID, WorkflowID: s.WorkflowID, Statuses: []schedule.Status{schedule.StatusSkipped},
			Reason: schedule.ReasonOverlap, Trigger: schedule.TriggerSchedule, From: skipped.RunAt, To: r.now,
		}, []schedule.Run{skipped}},
	} {
		c.filter.Now, c.filter.Limit = r.now, 100
		got, err := r.ListRuns(r.ctx, c.filter)
		r.ok(err, "list runs "+c.name)
		equal(r, "runs "+c.name, keysOf(got), keysOf(c.want))
	}
}

func listRunsFuture(r *rig) {
	s := r.create("future")
	due, now, future := r.due(s, 1), r.slot(s, r.now), r.slot(s, r.at(time.Microsecond*1_000_000))
	flying := r.bring(r.slot(s, r.at(2*time.Second), func(run *schedule.Run) { run.FireAt = r.now }), schedule.StatusLaunching) // jitter drew it early
	r.add(due, now, future)
	list := func(statuses ...schedule.Status) []schedule.Key {
		got, err := r.ListRuns(r.ctx, schedule.RunFilter{ScheduleID: s.ScheduleID, Statuses: statuses, Now: r.now, Limit: 100})
		r.ok(err, "list runs")
		return keysOf(got)
	}
	equal(r, "runs", list(), keysOf([]schedule.Run{flying, now, due}))
	equal(r, "PLANNED runs", list(schedule.StatusPlanned), keysOf([]schedule.Run{future, now, due}))
}

// feedRuns follows the runs of one schedule as a watch does: from the last row
// that it has seen.
func feedRuns(r *rig) {
	r.lead()
	s := r.create("watched")
	filter := schedule.RunFilter{ScheduleID: s.ScheduleID, UpdatedAfter: r.at(-time.Hour), Limit: 2}
	follow := func() (seen []schedule.Run) {
		for range 20 {
			filter.Now = r.now
			page, err := r.ListRuns(r.ctx, filter)
			r.ok(err, "follow runs")
			if len(page) == 0 {
				return seen
			}
			seen = append(seen, page...)
			last := page[len(page)-1]
			filter.UpdatedAfter, filter.UpdatedKey = last.UpdatedAt, last.Key
		}
		r.Fatalf("the feed never ends")
		return nil
	}
	equal(r, "runs before there are any", follow(), nil)
	born := []schedule.Run{r.due(s, 3), r.due(s, 1), r.due(s, 2)}
	r.add(born...)
	slices.SortFunc(born, func(a, b schedule.Run) int { return compareKeys(a.Key, b.Key) }) // one instant: ties by key
	equal(r, "runs that were added", follow(), born)
	equal(r, "runs when nothing has changed", follow(), nil)

	r.now = r.at(time.Second)
	r.claim()
	r.hold(len(follow()) == 3, "all three were claimed")
	r.now = r.at(time.Second)
	r.settle(schedule.Settlement{Key: born[1].Key, To: schedule.StatusSuccess})
	got := follow()
	equal(r, "runs that have changed", got, []schedule.Run{r.ledger(born[1].Key)})
	r.hold(got[0].Status == schedule.StatusSuccess, "as it stands, got %s", got[0].Status)

	r.now = r.at(time.Second)
	r.settle(schedule.Settlement{Key: born[2].Key, To: schedule.StatusEnqueued})
	r.now = r.at(time.Second)
	r.settle(schedule.Settlement{Key: born[0].Key, To: schedule.StatusEnqueued})
	equal(r, "runs in the order of their changes", keysOf(follow()), []schedule.Key{born[2].Key, born[0].Key})
}
