package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/app/simulate"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/work"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
)

var midnight = time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)

// everyMinute is a schedule that was created long ago.
func everyMinute(id string, overlap schedule.OverlapPolicy, took time.Duration) registrar.ScenarioSchedule {
	made := midnight.AddDate(-1, 0, 0)
	return registrar.ScenarioSchedule{
		Schedule: schedule.Schedule{Revision: 1, CreatedAt: made, RevisedAt: made, UpdatedAt: made, Definition: schedule.Definition{
			ScheduleID: id, WorkflowID: "w", Version: 1, UserID: "u", CronExpr: "* * * * *", Timezone: "UTC", DST: schedule.DSTVixie,
			OverlapPolicy: overlap, OverlapKey: id, MaxQueued: 100, CatchupPolicy: schedule.CatchupNone, CatchupWindowMS: 86_400_000, RunTimeoutMS: 3_600_000,
		}},
		Run: registrar.AssumedRun{Duration: took},
	}
}

func TestASimulationEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := simulate.New(worker.Config{}).Simulate(ctx, registrar.Scenario{
		From: midnight, Until: midnight.Add(24 * time.Hour), Schedules: []registrar.ScenarioSchedule{everyMinute("s", schedule.OverlapSkip, time.Second)},
	}, work.New(work.PerCall))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the context was cancelled", err)
	}
}

// By hand: a minute's slot takes 80 s, so that every other one finds a run in
// flight; from 00:10:30 to 00:20:30 nobody is alive.
func TestSlotsOfALongRunAndAnOutage(t *testing.T) {
	t.Parallel()
	slots, err := simulate.New(worker.Config{}).Simulate(t.Context(), registrar.Scenario{
		From: midnight, Until: midnight.Add(30 * time.Minute), Schedules: []registrar.ScenarioSchedule{everyMinute("s", schedule.OverlapSkip, 80*time.Second)},
		Outages: []registrar.Span{{From: midnight.Add(10*time.Minute + 30*time.Second), Until: midnight.Add(20*time.Minute + 30*time.Second)}},
	}, work.New(work.PerCall))
	if err != nil || len(slots) != 30 {
		t.Fatalf("%d slots, %v, want 30", len(slots), err)
	}
	for i, s := range slots {
		want := "SUCCESS()"
		switch {
		case i >= 11 && i <= 19: // 00:20 is 30 s late, within the grace
			want = "SKIPPED(missed)"
		case i%2 == 1:
			want = "SKIPPED(overlap)"
		}
		if got := fmt.Sprintf("%s(%s)", s.Status, s.Reason); got != want {
			t.Errorf("the slot of minute %d is %s, want %s", i, got, want)
		}
	}
	if late := slots[20].Lateness(); late != 30*time.Second {
		t.Errorf("the slot of 00:20 is %s late, want 30s", late)
	}
}

// A simulation has no queues: the runs are launched when they are due.
func TestSlotsOfAQueueAreSimulatedWithoutIt(t *testing.T) {
	t.Parallel()
	s := everyMinute("s", schedule.OverlapSkip, time.Second)
	s.Schedule.QueueID, s.Schedule.Limits, s.Schedule.Webhook = "gpu", []string{"card"}, "billing"
	slots, err := simulate.New(worker.Config{}).Simulate(t.Context(), registrar.Scenario{
		From: midnight, Until: midnight.Add(5 * time.Minute), Schedules: []registrar.ScenarioSchedule{s},
	}, work.New(work.PerCall))
	if err != nil || len(slots) != 5 {
		t.Fatalf("%d slots, %v, want 5", len(slots), err)
	}
	for _, slot := range slots {
		if slot.Status != schedule.StatusSuccess {
			t.Errorf("it ends %s(%s)", slot.Status, slot.Reason)
		}
	}
}

// By hand: a minute's slot fails after 30 s, and is tried again 10 s later, for 30 s. So each other
// slot finds a retry in flight. Without retries none does.
func TestRetriesOfFailedRunsAreSimulated(t *testing.T) {
	t.Parallel()
	for attempts, odd := range map[uint32]string{1: "FAILED(workflow_failed)", 2: "SKIPPED(overlap)"} {
		s := everyMinute("s", schedule.OverlapSkip, 30*time.Second)
		s.Schedule.Retry = schedule.RetryPolicy{MaxAttempts: attempts}.Resolved()
		s.Run.FailurePercent = 100
		slots, err := simulate.New(worker.Config{}).Simulate(t.Context(), registrar.Scenario{
			From: midnight, Until: midnight.Add(20 * time.Minute), Schedules: []registrar.ScenarioSchedule{s},
		}, work.New(work.PerCall))
		if err != nil || len(slots) != 20 {
			t.Fatalf("%d slots, %v, want 20", len(slots), err)
		}
		for i, slot := range slots {
			want := "FAILED(workflow_failed)"
			if i%2 == 1 {
				want = odd
			}
			if got := fmt.Sprintf("%s(%s)", slot.Status, slot.Reason); got != want {
				t.Errorf("%d attempts: the slot of minute %d is %s, want %s", attempts, i, got, want)
			}
		}
	}
}

// A worker learns of a planned run when it comes into its window, long after its plan.
func TestSlotsFarApartAreLaunchedOnTime(t *testing.T) {
	t.Parallel()
	of := everyMinute("s", schedule.OverlapSkip, time.Second)
	of.Schedule.CronExpr = "30 * * * *"
	slots, err := simulate.New(worker.Config{}).Simulate(t.Context(), registrar.Scenario{
		From: midnight, Until: midnight.Add(24 * time.Hour), Schedules: []registrar.ScenarioSchedule{of},
	}, work.New(work.PerCall))
	if err != nil || len(slots) != 24 {
		t.Fatalf("%d slots, %v, want 24", len(slots), err)
	}
	for i, s := range slots {
		if s.Status != schedule.StatusSuccess || s.Lateness() != 0 {
			t.Errorf("slot %d is %s(%s), %s late", i, s.Status, s.Reason, s.Lateness())
		}
	}
}

// By hand: the executor is away from 00:05:30 to 00:20:30. A run is tried until its
// launch timeout, or for LAUNCH_RETRY_FOR_MS (10 minutes). Its last attempt is two
// seconds before that.
func TestAnExecutorOutageFailsWhatCannotBeLaunchedInTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		timeout uint32 // launch_timeout_ms
		first   int    // the first minute that is launched after the outage
	}{
		{"with LAUNCH_RETRY_FOR_MS", 0, 11},
		{"with a launch timeout of two minutes", 120_000, 19},
		{"with a launch timeout of an hour", 3_600_000, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := everyMinute("s", schedule.OverlapAllow, time.Second)
			s.Schedule.LaunchTimeoutMS = c.timeout
			slots, err := simulate.New(worker.Config{}).Simulate(t.Context(), registrar.Scenario{
				From: midnight, Until: midnight.Add(30 * time.Minute), Schedules: []registrar.ScenarioSchedule{s},
				ExecutorOutages: []registrar.Span{{From: midnight.Add(5*time.Minute + 30*time.Second), Until: midnight.Add(20*time.Minute + 30*time.Second)}},
			}, work.New(work.PerCall))
			if err != nil || len(slots) != 30 {
				t.Fatalf("%d slots, %v, want 30", len(slots), err)
			}
			for i, slot := range slots {
				away := i >= 6 && i <= 20
				want := "SUCCESS()"
				if away && i < c.first {
					want = "FAILED(launch_unavailable)"
				}
				if got := fmt.Sprintf("%s(%s)", slot.Status, slot.Reason); got != want {
					t.Errorf("the slot of minute %d is %s, want %s", i, got, want)
				}
				back := midnight.Add(20*time.Minute + 30*time.Second)
				if away && i >= c.first && (slot.LaunchedAt.Before(back) || slot.LaunchedAt.After(back.Add(10*time.Second))) {
					t.Errorf("the slot of minute %d was launched at %s, want soon after %s", i, slot.LaunchedAt, back)
				}
				if !away && slot.Lateness() > time.Second {
					t.Errorf("the slot of minute %d is %s late", i, slot.Lateness())
				}
			}
		})
	}
}

func TestAssumedRunTimesAreLognormal(t *testing.T) {
	t.Parallel()
	run := registrar.AssumedRun{Duration: time.Minute, P95: 5 * time.Minute, FailurePercent: 25}
	below, below95, failed := 0, 0, 0
	const n = 20_000
	for i := range n {
		took, fails := simulate.Assumed(run, 3, schedule.SlotKey("s", midnight.Add(time.Duration(i)*time.Second)))
		if took < run.Duration {
			below++
		}
		if took < run.P95 {
			below95++
		}
		if fails {
			failed++
		}
	}
	for name, part := range map[string][2]float64{"half": {float64(below) / n, 0.5}, "95 %": {float64(below95) / n, 0.95}, "failures": {float64(failed) / n, 0.25}} {
		if part[0] < part[1]-0.015 || part[0] > part[1]+0.015 {
			t.Errorf("%s: %.3f of the runs, want %.2f", name, part[0], part[1])
		}
	}
}

// The largest simulation that one call may ask for.
func BenchmarkSimulate10000Slots(b *testing.B) {
	in := registrar.Scenario{From: midnight, Until: midnight.Add(200 * time.Minute)}
	for i := range registrar.MaxSimulatedSchedules {
		in.Schedules = append(in.Schedules, everyMinute(fmt.Sprint("s", i), schedule.OverlapPolicies[i%4], 70*time.Second))
	}
	s := simulate.New(worker.Config{})
	for b.Loop() {
		slots, err := s.Simulate(b.Context(), in, work.New(work.PerCall))
		if err != nil || len(slots) != registrar.MaxSimulatedSlots {
			b.Fatal(len(slots), err)
		}
	}
}
