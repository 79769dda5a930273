package simulate_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
)

// config is a worker with bounds that are short: so much more happens in a
// minute.
var config = worker.Config{
	Tick: time.Second, Lookahead: 8 * time.Second, Grace: 4 * time.Second, MaxCatchup: 3, ClaimLease: 5 * time.Second, RetryFor: 20 * time.Second,
	CancelWait: 4 * time.Second, DrainTimeout: 500 * time.Millisecond,
}

// The same scenario, simulated and really played by the worker over SQLite,
// makes the same of every slot; and the sums are those of the slots. The worker's
// loops run side by side: a claim at the instant of a tick may come before, between
// or after its plan and its sweep, so that the worker itself does now this, now
// that. The simulation's must be among what it does.
func TestASimulationIsWhatTheWorkerDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		if difference := compare(t, drawScenario(rt)); difference != "" {
			rt.Fatalf("%s", difference)
		}
	})
}

// After the outage the window of the leader's memory ends just before a planned slot, and
// no tick has anything to do until that slot is due.
func TestASlotThatEntersTheWindowBetweenTicksIsLaunchedOnTime(t *testing.T) {
	s := scenario{window: 41_777 * time.Millisecond, seed: 1676, outages: [][2]time.Duration{
		{2_004_113 * time.Microsecond, 9_064_057 * time.Microsecond}, {21_091_113 * time.Microsecond, 28_150_057 * time.Microsecond},
	}}
	in := registrar.UpsertInput{JitterMS: new(uint32(700)), MaxQueued: new(uint32(4)), RunTimeoutMS: new(uint32(3000))}
	in.Definition = schedule.Definition{
		ScheduleID: "s0", WorkflowID: "w", Version: 1, UserID: "u", CronExpr: "*/10 * * * * *",
		OverlapPolicy: schedule.OverlapReplace, OverlapKey: "shared", CatchupPolicy: schedule.CatchupLatest,
	}
	s.schedules = []drawnSchedule{{
		in: in, run: registrar.AssumedRun{Duration: 159_013 * time.Microsecond},
		pauses: [][2]time.Duration{{3_071_029 * time.Microsecond, 4_148_029 * time.Microsecond}},
	}}
	if difference := compare(t, s); difference != "" {
		t.Error(difference)
	}
}

// compare plays a scenario both ways until nothing differs, at most four times.
func compare(t *testing.T, s scenario) (difference string) {
	for range 4 {
		synctest.Test(t, func(t *testing.T) {
			played, really := playBoth(t, s)
			difference = cmp.Or(differ(s, played.Slots, really), differInSums(played))
		})
		if difference == "" {
			return ""
		}
	}
	return difference
}

// differ shows the first slot that differs, with those before it.
func differ(s scenario, played, really []registrar.SimulatedSlot) string {
	if len(played) != len(really) {
		return fmt.Sprintf("%d slots were simulated, there are %d", len(played), len(really))
	}
	for i := range really {
		if same(played[i], really[i]) {
			continue
		}
		var out strings.Builder
		for j := max(0, i-8); j < min(len(really), i+4); j++ {
			fmt.Fprintf(&out, "\nsimulated %s\n   really %s", shown(played[j]), shown(really[j]))
		}
		return fmt.Sprintf("scenario %s%s", s, out.String())
	}
	return ""
}

// String is the scenario in a few lines.
func (s scenario) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "window %s outages %v seed %d", s.window, s.outages, s.seed)
	for _, d := range s.schedules {
		fmt.Fprintf(&out, "\n%s %s%d %s key %q catchup %s jitter %d queue %d timeout %d runs %v pauses %v", d.in.Definition.ScheduleID, d.in.Definition.CronExpr,
			d.in.Definition.IntervalMS, d.in.Definition.OverlapPolicy, d.in.Definition.OverlapKey, d.in.Definition.CatchupPolicy, *d.in.JitterMS, *d.in.MaxQueued, *d.in.RunTimeoutMS, d.run, d.pauses)
	}
	return out.String()
}

// scenario is one in terms of offsets from its beginning.
type scenario struct {
	window    time.Duration
	schedules []drawnSchedule
	outages   [][2]time.Duration
	seed      uint32
}

type drawnSchedule struct {
	in     registrar.UpsertInput
	saved  bool // simulated by its id; else as a rule that is not saved
	run    registrar.AssumedRun
	pauses [][2]time.Duration
}

// betweenSlots is the offset of the workers' ticks from the milliseconds at which slots
// fire: if a slot and a tick were at one instant, their order would vary.
const betweenSlots = 57 * time.Microsecond

func drawScenario(t *rapid.T) scenario {
	ms := func(label string, least, most int) time.Duration {
		return time.Duration(rapid.IntRange(least, most).Draw(t, label)) * time.Millisecond
	}
	s := scenario{window: ms("window", 30, 90)*1000 + 777*time.Millisecond, seed: rapid.Uint32().Draw(t, "seed")}
	for at := ms("outage", 2_000, 60_000); at < s.window-20*time.Second && len(s.outages) < 2; at += ms("outage", 12_000, 40_000) {
		long := min(ms("outage long", 7_000, 18_000), s.window-at-time.Second)
		s.outages = append(s.outages, [2]time.Duration{at + 113*time.Microsecond, at + long + betweenSlots})
		at += long
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "schedules") {
		s.schedules = append(s.schedules, drawSchedule(t, i, s.window, ms))
	}
	return s
}

func drawSchedule(t *rapid.T, i int, window time.Duration, ms func(string, int, int) time.Duration) (d drawnSchedule) {
	d.in.Definition = schedule.Definition{
		ScheduleID: fmt.Sprint("s", i), WorkflowID: "w", Version: 1, UserID: "u",
		OverlapPolicy: rapid.SampledFrom(schedule.OverlapPolicies).Draw(t, "overlap"),
		CatchupPolicy: rapid.SampledFrom(schedule.CatchupPolicies).Draw(t, "catchup"),
		OverlapKey:    rapid.SampledFrom([]string{"", "shared"}).Draw(t, "key"),
	}
	if d.in.Definition.OverlapPolicy == schedule.OverlapAllow {
		// With others on one key the worker's verdicts vary: armed runs count as in flight,
		// and arming depends on milliseconds.
		d.in.Definition.OverlapKey = ""
	}
	step := rapid.SampledFrom([]int{1, 2, 3, 5, 10}).Draw(t, "step")
	if rapid.Bool().Draw(t, "cron") {
		d.in.Definition.CronExpr = fmt.Sprintf("*/%d * * * * *", step)
	} else {
		d.in.Definition.IntervalMS = uint32(step * 1000)
	}
	jitter, queued := uint32(rapid.SampledFrom([]int{0, 0, 700, 3000}).Draw(t, "jitter")), uint32(rapid.IntRange(1, 4).Draw(t, "max queued"))
	timeout := uint32(rapid.SampledFrom([]int{3_000, 3_600_000}).Draw(t, "timeout"))
	d.in.JitterMS, d.in.MaxQueued, d.in.RunTimeoutMS = &jitter, &queued, &timeout
	d.run = registrar.AssumedRun{Duration: ms("duration", 120, 12_000) + 13*time.Microsecond, FailurePercent: rapid.SampledFrom([]int{0, 40}).Draw(t, "fails")}
	if rapid.Bool().Draw(t, "lognormal") {
		d.run.P95 = d.run.Duration * time.Duration(rapid.IntRange(2, 6).Draw(t, "p95"))
	}
	d.saved = rapid.Bool().Draw(t, "saved")
	if rapid.Bool().Draw(t, "paused") {
		at := ms("pause", 3_000, 20_000) + 29*time.Microsecond
		d.pauses = append(d.pauses, [2]time.Duration{at, min(at+ms("pause long", 1_000, 20_000), window-time.Millisecond)})
	}
	return d
}

// playBoth lets the worker play a scenario, then simulates it.
func playBoth(t *testing.T, s scenario) (played *registrar.Simulation, really []registrar.SimulatedSlot) {
	time.Sleep(300*time.Millisecond + betweenSlots)
	r := newReal(t, config)
	defer r.close()
	began := time.Now().UTC()
	in := registrar.Scenario{From: began, Until: began.Add(s.window), Seed: s.seed}
	r.runs.seed = s.seed
	for _, d := range s.schedules {
		done, err := r.registrar.Upsert(t.Context(), d.in)
		if err != nil {
			t.Fatal(err)
		}
		of := registrar.ScenarioSchedule{Schedule: *done.Schedule, Run: d.run}
		r.runs.of[done.Schedule.ScheduleID] = d.run
		for _, p := range d.pauses {
			if spreads(of) && slices.ContainsFunc(s.outages, func(o [2]time.Duration) bool { return o[0] < p[1] }) {
				continue // it might begin while a spread slot is armed
			}
			if from, ok := quiet(t, []registrar.ScenarioSchedule{of}, began.Add(p[0])); ok && from.Before(began.Add(p[1])) {
				of.Pauses = append(of.Pauses, registrar.Span{From: from, Until: began.Add(p[1])})
			}
		}
		in.Schedules = append(in.Schedules, of)
	}
	for _, o := range s.outages {
		if from, ok := quiet(t, in.Schedules, began.Add(o[0])); ok {
			in.Outages = append(in.Outages, registrar.Span{From: from, Until: began.Add(o[1])})
		}
		if slices.ContainsFunc(in.Schedules, spreads) {
			break // a second one might come while a spread slot is armed
		}
	}
	really = r.play(in)
	asked := registrar.SimulateInput{From: in.From, Until: in.Until, Outages: in.Outages, Seed: in.Seed}
	for i, d := range s.schedules {
		over := d.in
		if d.saved {
			over = registrar.UpsertInput{Definition: schedule.Definition{ScheduleID: d.in.Definition.ScheduleID}}
		}
		asked.Schedules = append(asked.Schedules, registrar.SimulateSchedule{Over: over, Run: d.run, Pauses: in.Schedules[i].Pauses})
	}
	played, err := r.registrar.Simulate(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	return played, really
}

func spreads(s registrar.ScenarioSchedule) bool {
	return s.Schedule.CatchupPolicy == schedule.CatchupSpread
}

// quiet is an instant from then on after which nothing fires for as long as the
// launcher makes its last check, and records the key, ahead of fire_at; a
// simulation does both at fire_at. What dies or is paused between the two goes its
// own way, which is within what is promised: see docs/foresight.md.
func quiet(t *testing.T, schedules []registrar.ScenarioSchedule, at time.Time) (time.Time, bool) {
	for end := at.Add(5 * time.Second); at.Before(end); at = at.Add(50 * time.Millisecond) {
		busy := false
		for i := range schedules {
			s := &schedules[i].Schedule
			tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
			if err != nil {
				t.Fatal(err)
			}
			for range (plan.Load{Timetable: tt}).Launches(at.Add(-time.Millisecond), at.Add(launcher.CheckAhead+20*time.Millisecond)) {
				busy = true
			}
		}
		if !busy {
			return at, true
		}
	}
	return at, false
}

// play is the scenario in real: kills, starts and pauses at their instants, and
// the outcome of every slot when the window is over.
func (r *real) play(in registrar.Scenario) (slots []registrar.SimulatedSlot) {
	type event struct {
		at time.Time
		do func()
	}
	p := r.start()
	dying := []*process{}
	var events []event
	for _, o := range in.Outages {
		events = append(events, event{o.From, func() { p.die(); dying = append(dying, p) }}, event{o.Until, func() { p = r.start() }})
	}
	for _, s := range in.Schedules {
		for _, span := range s.Pauses {
			events = append(events, event{span.From, func() {
				if _, err := r.registrar.Pause(r.t.Context(), registrar.PauseInput{ScheduleID: s.Schedule.ScheduleID, Until: span.Until}); err != nil {
					r.t.Error(err)
				}
			}})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	for _, d := range events {
		time.Sleep(time.Until(d.at))
		d.do()
	}
	time.Sleep(time.Until(in.Until))
	slots = r.slots(in)
	p.die()
	for _, d := range append(dying, p) {
		d.stop()
	}
	return slots
}

// slots reads the outcome of every slot: its row, else its recorded range, else its
// pause.
func (r *real) slots(in registrar.Scenario) (all []registrar.SimulatedSlot) {
	for _, s := range in.Schedules {
		tt, err := plan.NewTimetable(&s.Schedule.Definition, s.Schedule.CreatedAt, s.Schedule.RevisedAt)
		if err != nil {
			r.t.Fatal(err)
		}
		events, err := r.registrar.Events(r.t.Context(), s.Schedule.ScheduleID, 0, schedule.MaxPageSize)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, slot := range tt.Preview(in.From.Add(-time.Nanosecond), in.Until.Add(-time.Nanosecond), 1000) {
			told := registrar.SimulatedSlot{ScheduleID: s.Schedule.ScheduleID, RunAt: slot.RunAt, FireAt: slot.FireAt, Status: schedule.StatusPlanned, Trigger: schedule.TriggerSchedule}
			run, err := r.registrar.GetRun(r.t.Context(), slot.Key)
			if err == nil {
				if _, waited := r.waited.Load(slot.Key); waited {
					told.WaitingSince = slot.FireAt // since when is as good as told by when it was launched
				}
				told.Status, told.Reason, told.Trigger, told.LaunchedAt, told.CompletedAt = run.Status, run.Reason, run.Trigger, run.LaunchedAt, run.CompletedAt
			}
			for _, e := range events {
				if err != nil && e.Reason != "" && !slot.RunAt.Before(e.From) && !slot.RunAt.After(e.To) {
					told.Status, told.Reason = schedule.StatusSkipped, e.Reason
				}
			}
			for _, p := range s.Pauses {
				if err != nil && told.Reason == "" && !slot.RunAt.Before(p.From) && slot.RunAt.Before(p.Until) {
					told.Status, told.Reason = schedule.StatusSkipped, schedule.ReasonPaused
				}
			}
			all = append(all, told)
		}
	}
	slices.SortStableFunc(all, func(a, b registrar.SimulatedSlot) int {
		if n := a.RunAt.Compare(b.RunAt); n != 0 {
			return n
		}
		return int(a.ScheduleID[1]) - int(b.ScheduleID[1])
	})
	return all
}

// same: the word, the reason, whether it waited, and the instants to within some
// milliseconds.
func same(a, b registrar.SimulatedSlot) bool {
	const some = 20 * time.Millisecond
	close := func(a, b time.Time) bool { return a.IsZero() == b.IsZero() && a.Sub(b).Abs() <= some }
	if a.Reason == schedule.ReasonReplaced && a.CompletedAt.Sub(a.FireAt) <= some {
		a.LaunchedAt, b.LaunchedAt = time.Time{}, time.Time{} // replaced as it fired: now just before its launch, now just after
	}
	return a.ScheduleID == b.ScheduleID && a.RunAt.Equal(b.RunAt) && a.FireAt.Equal(b.FireAt) && a.Status == b.Status && a.Reason == b.Reason &&
		a.Trigger == b.Trigger && a.WaitingSince.IsZero() == b.WaitingSince.IsZero() && close(a.LaunchedAt, b.LaunchedAt) && close(a.CompletedAt, b.CompletedAt)
}

func shown(x registrar.SimulatedSlot) string {
	began := time.Date(2000, 1, 1, 0, 0, 0, 300_000_000, time.UTC)
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return fmt.Sprintf("%.3f", t.Sub(began).Seconds())
	}
	return fmt.Sprintf("%s@%s fire %s %s(%s) %s waited %t launched %s ended %s", x.ScheduleID, at(x.RunAt), at(x.FireAt), x.Status, x.Reason, x.Trigger, !x.WaitingSince.IsZero(), at(x.LaunchedAt), at(x.CompletedAt))
}
