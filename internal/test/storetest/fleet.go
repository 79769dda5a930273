package storetest

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var fleet = []check{
	{"schedules are found by words in id, workflow, owner, rule, zone, set and labels, in upper or lower case", findSchedules},
	{"active schedules come in the order of their next slots, planned or not, in pages", listUpcoming},
	{"a schedule that is not planned up to now counts as due now", listBehind},
	{"runs are found by run_id, trace_id, first digits of the key, and by being late", findRuns},
	{"schedules and runs are counted, of one owner and of all", countFleet},
	{"runs of an owner and of a workflow are found behind thousands of others", listRunsBehindOthers},
}

func (r *rig) names(schedules []schedule.Schedule) (names []string) {
	for i := range schedules {
		names = append(names, schedules[i].ScheduleID[len(r.name)+1:])
	}
	return names
}

func findSchedules(r *rig) {
	r.create("Nightly-100%_done")
	r.create("berlin", func(s *schedule.Schedule) { s.Timezone, s.CronExpr = "Europe/Berlin", "7 3 * * *" })
	r.create("managed", func(s *schedule.Schedule) { s.ManagedBy, s.ExecutionGrantID = "Set-Of-Ops", "grant-1" })
	r.create("labelled", func(s *schedule.Schedule) { s.Labels = map[string]string{"team": "Billing", "ÄÖ": "Straße"} })
	r.create("workflow", func(s *schedule.Schedule) { s.WorkflowID = "invoice.send" })
	r.create("deleted-nightly", func(s *schedule.Schedule) { s.DeletedAt = r.now })
	for _, c := range []struct {
		name   string
		filter schedule.ScheduleFilter
		want   []string
	}{
		{"by a part of the id in other letters", schedule.ScheduleFilter{Text: "nIGHTLY"}, []string{"Nightly-100%_done"}},
		{"by characters that are wild in LIKE", schedule.ScheduleFilter{Text: "%_"}, []string{"Nightly-100%_done"}},
		{"by an underscore that nobody has", schedule.ScheduleFilter{Text: "managed_"}, nil},
		{"by the rule", schedule.ScheduleFilter{Text: "7 3 *"}, []string{"berlin"}},
		{"by the zone", schedule.ScheduleFilter{Text: "europe/"}, []string{"berlin"}},
		{"by the set", schedule.ScheduleFilter{Text: "of-ops"}, []string{"managed"}},
		{"by the workflow", schedule.ScheduleFilter{Text: "invoice"}, []string{"workflow"}},
		{"by name and value of a label", schedule.ScheduleFilter{Text: "team=bill"}, []string{"labelled"}},
		{"by letters that have no lower case in both databases", schedule.ScheduleFilter{Text: "Äö=straße"}, nil},
		{"by those letters as they are", schedule.ScheduleFilter{Text: "Ö=sTraße"}, []string{"labelled"}},
		{"by a word and a state", schedule.ScheduleFilter{Text: "nightly", State: schedule.StatePaused}, nil},
		{"by a word that nobody has", schedule.ScheduleFilter{Text: "no such thing"}, nil},
		{"by the grant", schedule.ScheduleFilter{GrantID: "grant-1"}, []string{"managed"}},
		{"by another grant", schedule.ScheduleFilter{GrantID: "grant-2"}, nil},
	} {
		c.filter.UserID, c.filter.Now, c.filter.Limit = r.user, r.now, 100
		got, err := r.ListSchedules(r.ctx, c.filter)
		r.ok(err, "list schedules "+c.name)
		equal(r, "schedules "+c.name, r.names(got), c.want)
	}
}

// next sets a cursor, and plan_at as a plan with a lookahead of a minute does.
func next(at time.Time) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) { s.NextRunAt, s.PlanAt = at, at.Add(-time.Minute) }
}

func (r *rig) upcoming(f schedule.ScheduleFilter) (names []string, last schedule.Upcoming) {
	r.Helper()
	f.Now = r.now
	if f.Limit == 0 {
		f.Limit = 100
	}
	got, err := r.ListUpcoming(r.ctx, f)
	r.ok(err, "list upcoming schedules")
	for i := range got {
		names, last = append(names, got[i].Schedule.ScheduleID[len(r.name)+1:]), got[i]
	}
	return names, last
}

func listUpcoming(r *rig) {
	planned := r.create("planned", next(r.at(24*time.Hour)))
	r.add(r.slot(planned, r.at(-time.Second)), r.slot(planned, r.at(40*time.Second)), r.slot(planned, r.at(20*time.Second)))
	waits := r.create("its planned slot waits", next(r.at(3*time.Hour)))
	r.add(r.slot(waits, r.at(-time.Minute), func(run *schedule.Run) { run.WaitingSince = r.at(-time.Second) }))
	byHand := r.create("only a run by hand is ahead", next(r.at(4*time.Hour)))
	r.add(r.manual(byHand, "m", r.at(time.Second)))
	r.create("b-in-two-hours", next(r.at(2*time.Hour)))
	r.create("a-in-two-hours", next(r.at(2*time.Hour)))
	r.create("in-an-hour", func(s *schedule.Schedule) { s.Labels = map[string]string{"team": "a"} })
	r.create("in-a-year", next(r.at(365*24*time.Hour)))
	r.create("paused", func(s *schedule.Schedule) { s.Pause.Paused = true })
	r.create("exhausted", planAt(time.Time{}), func(s *schedule.Schedule) { s.NextRunAt = time.Time{} })
	r.create("deleted", func(s *schedule.Schedule) { s.DeletedAt = r.now })
	r.create("foreign", next(r.at(30*time.Minute)), func(s *schedule.Schedule) { s.UserID = r.id("foreign") })

	all := []string{
		"planned", "foreign", "in-an-hour", "a-in-two-hours", "b-in-two-hours", "its planned slot waits", "only a run by hand is ahead", "in-a-year",
	}
	own := append([]string{"planned"}, all[2:]...)
	got, _ := r.upcoming(schedule.ScheduleFilter{})
	equal(r, "upcoming of all owners", got, all)
	got, _ = r.upcoming(schedule.ScheduleFilter{UserID: r.user})
	equal(r, "upcoming of one owner", got, own)
	got, _ = r.upcoming(schedule.ScheduleFilter{UserID: r.user, LabelKey: "team", LabelValue: "a"})
	equal(r, "upcoming with a label", got, []string{"in-an-hour"})
	got, _ = r.upcoming(schedule.ScheduleFilter{UserID: r.user, NextBefore: r.at(2 * time.Hour)})
	equal(r, "upcoming before, exclusive", got, []string{"planned", "in-an-hour"})
	got, first := r.upcoming(schedule.ScheduleFilter{UserID: r.user, Limit: 1})
	equal(r, "the first", got, []string{"planned"})
	equal(r, "its next slot", first.NextAt, r.at(20*time.Second))

	var paged []string
	f := schedule.ScheduleFilter{UserID: r.user, Limit: 2}
	for range own {
		page, last := r.upcoming(f)
		paged = append(paged, page...)
		f.AfterNext, f.After = last.NextAt, last.Schedule.ScheduleID
		if len(page) < f.Limit {
			break
		}
	}
	equal(r, "upcoming in pages", paged, own)
}

func listBehind(r *rig) {
	r.create("ahead", next(r.at(time.Minute)))
	r.create("behind", next(r.at(-time.Hour)))
	r.create("at-now", next(r.now))
	got, _ := r.upcoming(schedule.ScheduleFilter{UserID: r.user})
	equal(r, "upcoming", got, []string{"at-now", "behind", "ahead"})
	_, first := r.upcoming(schedule.ScheduleFilter{UserID: r.user, Limit: 1})
	equal(r, "next slot of what is behind", first.NextAt, r.now)
}

func findRuns(r *rig) {
	r.lead()
	s := r.create("found")
	given := func(runID, traceID string) func(*schedule.Settlement) {
		return func(st *schedule.Settlement) { st.RunID, st.TraceID = runID, traceID }
	}
	one := r.bring(r.due(s, 50), schedule.StatusSuccess, given("run-1", "trace-1"))
	two := r.bring(r.due(s, 40), schedule.StatusStarted, given("run-2", ""))
	foreign := r.bring(r.due(r.create("foreign", func(s *schedule.Schedule) { s.UserID = r.id("foreign") }), 45), schedule.StatusFailed, given("run-1", "trace-1"))
	flying := r.bring(r.due(s, 30), schedule.StatusLaunching)
	late := r.add(r.due(s, 20))[0]
	waiting := r.add(r.slot(s, r.at(-25*time.Second), func(run *schedule.Run) { run.WaitingSince = r.at(-time.Second) }))[0]
	ahead := r.add(r.slot(s, r.at(time.Minute)))[0]
	prefix := func(digits string) schedule.KeyRange {
		keys, err := schedule.ParseKeyPrefix(digits)
		r.ok(err, "read "+digits)
		return keys
	}
	for _, c := range []struct {
		name   string
		filter schedule.RunFilter
		want   []schedule.Run
	}{
		{"by run_id", schedule.RunFilter{RunID: "run-1"}, []schedule.Run{foreign, one}},
		{"by run_id, of an owner", schedule.RunFilter{RunID: "run-1", UserID: s.UserID}, []schedule.Run{one}},
		{"by run_id, of a schedule", schedule.RunFilter{RunID: "run-2", ScheduleID: s.ScheduleID}, []schedule.Run{two}},
		{"by run_id, of another schedule", schedule.RunFilter{RunID: "run-2", ScheduleID: foreign.ScheduleID}, nil},
		{"by a part of a run_id", schedule.RunFilter{RunID: "run"}, nil},
		{"by the executor's trace_id", schedule.RunFilter{TraceID: "trace-1", UserID: s.UserID}, []schedule.Run{one}},
		{"by the trace_id that Carillon makes", schedule.RunFilter{TraceID: two.Key.TraceID()}, []schedule.Run{two}},
		{"by a trace_id that nobody has", schedule.RunFilter{TraceID: "trace-2"}, nil},
		{"by the whole key", schedule.RunFilter{Keys: prefix(two.Key.String())}, []schedule.Run{two}},
		{"by an odd number of digits of the key", schedule.RunFilter{Keys: prefix(two.Key.String()[:15])}, []schedule.Run{two}},
		{"by digits of the key and another owner", schedule.RunFilter{Keys: prefix(two.Key.String()[:15]), UserID: foreign.UserID}, nil},
		{"late", schedule.RunFilter{DueBefore: r.at(-time.Second)}, []schedule.Run{late, flying}},
		{"late, of a status", schedule.RunFilter{DueBefore: r.at(-time.Second), Statuses: []schedule.Status{schedule.StatusLaunching}}, []schedule.Run{flying}},
		{"late for half a minute", schedule.RunFilter{DueBefore: flying.FireAt}, nil},
		{"in flight", schedule.RunFilter{Statuses: []schedule.Status{schedule.StatusLaunching, schedule.StatusStarted}}, []schedule.Run{flying, two}},
		{"unfinished", schedule.RunFilter{
			Statuses: []schedule.Status{schedule.StatusPlanned, schedule.StatusLaunching, schedule.StatusEnqueued, schedule.StatusStarted},
		}, []schedule.Run{ahead, late, waiting, flying, two}},
		{"planned, oldest first", schedule.RunFilter{Statuses: []schedule.Status{schedule.StatusPlanned}, Ascending: true}, []schedule.Run{waiting, late, ahead}},
		{"ended badly", schedule.RunFilter{Statuses: []schedule.Status{schedule.StatusFailed, schedule.StatusCancelled}}, []schedule.Run{foreign}},
	} {
		c.filter.Now, c.filter.Limit = r.now, 100
		got, err := r.ListRuns(r.ctx, c.filter)
		r.ok(err, "list runs "+c.name)
		equal(r, "runs "+c.name, keysOf(got), keysOf(c.want))
	}
}

func countFleet(r *rig) {
	r.lead()
	s := r.create("counted", next(r.at(10*time.Minute)))
	r.create("in-two-hours", next(r.at(2*time.Hour)))
	r.create("behind", next(r.at(-time.Minute)))
	r.create("paused", func(s *schedule.Schedule) { s.Pause.Paused = true })
	foreign := r.create("foreign", next(r.at(time.Minute)), func(s *schedule.Schedule) { s.UserID = r.id("foreign") })
	r.bring(r.due(s, 90), schedule.StatusFailed)
	r.bring(r.due(s, 50), schedule.StatusFailed)
	r.bring(r.due(s, 40), schedule.StatusStarted)
	r.bring(r.due(foreign, 35), schedule.StatusLaunching)
	r.add(r.slot(s, r.at(-25*time.Second), func(run *schedule.Run) { run.WaitingSince = r.at(-time.Second) }), r.due(s, 20), r.due(foreign, 1))
	count := func(userID string) schedule.FleetCounts {
		got, err := r.CountFleet(r.ctx, schedule.FleetQuery{
			UserID: userID, Now: r.now, NextBefore: r.at(time.Hour), DueBefore: r.at(-5 * time.Second), FailedSince: r.at(-time.Minute),
		})
		r.ok(err, "count")
		return got
	}
	equal(r, "counts of one owner", count(s.UserID), schedule.FleetCounts{Active: 3, Upcoming: 1, Behind: 1, InFlight: 1, Waiting: 1, Late: 1, Failed: 1})
	equal(r, "counts of all owners", count(""), schedule.FleetCounts{Active: 4, Upcoming: 2, Behind: 1, InFlight: 2, Waiting: 1, Late: 2, Failed: 1})
}

func listRunsBehindOthers(r *rig) {
	const others = schedule.RecentRuns + 50
	few := r.create("few", func(s *schedule.Schedule) { s.UserID, s.WorkflowID = r.id("few"), r.id("rare") })
	gone := r.create("gone", func(s *schedule.Schedule) { s.UserID, s.WorkflowID = r.id("few"), r.id("rare") })
	want := []schedule.Run{r.manual(few, "2", r.at(-2*time.Hour)), r.manual(gone, "3", r.at(-3*time.Hour)), r.manual(few, "4", r.at(-4*time.Hour))}
	r.add(want...)
	r.rewrite(gone, func(s *schedule.Schedule) { s.DeletedAt, s.PlanAt = r.now, time.Time{} })
	many := r.create("many")
	newer := make([]schedule.Run, others)
	for i := range newer {
		newer[i] = r.manual(many, fmt.Sprint(i), r.at(-time.Duration(i)*time.Millisecond))
	}
	r.add(newer...)
	for _, c := range []struct {
		name   string
		filter schedule.RunFilter
		want   []schedule.Run
	}{
		{"of an owner with few", schedule.RunFilter{UserID: few.UserID, Limit: 10}, want},
		{"of an owner with few, by hand", schedule.RunFilter{UserID: few.UserID, Trigger: schedule.TriggerManual, Limit: 10}, want},
		{"of an owner with few, none of them failed", schedule.RunFilter{UserID: few.UserID, Statuses: []schedule.Status{schedule.StatusFailed}, Limit: 10}, nil},
		{"of a workflow with few", schedule.RunFilter{WorkflowID: few.WorkflowID, Limit: 10}, want},
		{"of a workflow and another owner", schedule.RunFilter{WorkflowID: few.WorkflowID, UserID: many.UserID, Limit: 10}, nil},
		{"of an owner with few, behind a place", schedule.RunFilter{UserID: few.UserID, AfterRunAt: want[0].RunAt, AfterKey: want[0].Key, Limit: 1}, want[1:2]},
		{"of an owner with few, oldest first", schedule.RunFilter{UserID: few.UserID, Ascending: true, Limit: 2}, []schedule.Run{want[2], want[1]}},
		{"of an owner with many", schedule.RunFilter{UserID: many.UserID, Limit: 2}, newer[:2]},
		{"of an owner with many, before what is recent", schedule.RunFilter{UserID: many.UserID, To: newer[others-2].RunAt, Limit: 9}, newer[others-1:]},
	} {
		c.filter.Now = r.now
		got, err := r.ListRuns(r.ctx, c.filter)
		r.ok(err, "list runs "+c.name)
		equal(r, "runs "+c.name, keysOf(got), keysOf(c.want))
	}
}
