package ledger_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

var failedAt = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// deadRun is a dead run of a living schedule under policy skip.
func deadRun(edits ...func(*schedule.RunInput)) schedule.RunInput {
	slot := failedAt.Add(-time.Hour)
	in := schedule.RunInput{
		Run: schedule.Run{
			Key: schedule.SlotKey("s", slot), ScheduleID: "s", Revision: 3, UserID: "u", WorkflowID: "w", Version: 2, RunAt: slot, FireAt: slot,
			Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, FailureClass: schedule.ClassLogic, Dead: new(true),
			Trigger: schedule.TriggerSchedule, OverlapKey: "u/s", OverlapPolicy: schedule.OverlapSkip, Exclusive: true, MaxQueued: 4,
			Attempt: 2, MaxAttempts: 2, Input: []byte(`{"a":1}`), Priority: 5, CompletedAt: failedAt, Deliveries: 3, RunID: "r-1",
		},
		Schedule:   &schedule.Schedule{Definition: schedule.Definition{ScheduleID: "s", UserID: "u", OverlapPolicy: schedule.OverlapSkip}},
		Definition: &schedule.Definition{MaxQueued: 9, Retry: schedule.RetryPolicy{MaxAttempts: 3}.Resolved()},
	}
	for _, edit := range edits {
		edit(&in)
	}
	return in
}

func redriveOrder(edits ...func(*schedule.RedriveOrder)) *schedule.RedriveOrder {
	now := failedAt.Add(time.Hour)
	o := &schedule.RedriveOrder{RequestID: "again", Began: now, Now: now}
	for _, edit := range edits {
		edit(o)
	}
	return o
}

func TestWhichDeadRunsAreRedriven(t *testing.T) {
	for _, c := range []struct {
		name       string
		run        func(*schedule.RunInput)
		runs, left int
	}{
		{"one of a living schedule", func(*schedule.RunInput) {}, 1, 0},
		{"one of a paused schedule", func(in *schedule.RunInput) { in.Schedule.Pause.Paused = true }, 1, 0},
		{"one whose revision cannot be read", func(in *schedule.RunInput) { in.Definition = nil }, 1, 0},
		{"a retry that came too late", func(in *schedule.RunInput) {
			in.Run.Status, in.Run.Reason = schedule.StatusSkipped, schedule.ReasonMissed
		}, 1, 0},
		{"one that ended at that instant", func(in *schedule.RunInput) { in.Run.CompletedAt = failedAt.Add(time.Hour) }, 1, 0},
		{"one of a deleted schedule stays dead", func(in *schedule.RunInput) { in.Schedule.DeletedAt = failedAt }, 0, 1},
		{"one of a schedule that is gone stays dead", func(in *schedule.RunInput) { in.Schedule = nil }, 0, 1},
		{"one that was retried by hand", func(in *schedule.RunInput) { in.Run.Dead = new(false) }, 0, 0},
		{"one that an automatic retry follows", func(in *schedule.RunInput) { in.Run.Dead = nil }, 0, 0},
		{"one that failed after the redrive began", func(in *schedule.RunInput) { in.Run.CompletedAt = failedAt.Add(time.Hour + time.Microsecond) }, 0, 0},
		{"one that this redrive made", func(in *schedule.RunInput) {
			in.Run.RetryOf = in.Run.Key
			in.Run.Key = schedule.RetryKey(in.Run.RetryOf, "again")
		}, 0, 0},
		{"a job of a deleted queue", func(in *schedule.RunInput) { in.Run.Queue.No, in.Queue = 7, &schedule.Queue{DeletedAt: failedAt} }, 0, 1},
		{"a job of a queue", func(in *schedule.RunInput) { in.Run.Queue.No, in.Queue = 7, &schedule.Queue{} }, 1, 0},
		{"one that another redrive made", func(in *schedule.RunInput) {
			in.Run.RetryOf = in.Run.Key
			in.Run.Key = schedule.RetryKey(in.Run.RetryOf, "before")
		}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			runs, left := ledger.Redrive([]schedule.RunInput{deadRun(c.run)}, redriveOrder())
			if len(runs) != c.runs || left != c.left {
				t.Errorf("%d new runs, %d left dead; want %d and %d", len(runs), left, c.runs, c.left)
			}
		})
	}
}

func TestARedrivenRunIsANewAttemptOfTheDeadOne(t *testing.T) {
	in := deadRun()
	runs, _ := ledger.Redrive([]schedule.RunInput{in}, redriveOrder())
	got, old := runs[0], in.Run
	want := schedule.Run{
		Key: schedule.RetryKey(old.Key, "again"), ScheduleID: "s", Revision: 3, UserID: "u", WorkflowID: "w", Version: 2, RunAt: old.RunAt, FireAt: failedAt.Add(time.Hour),
		Status: schedule.StatusPlanned, Trigger: schedule.TriggerRetry, OverlapKey: "u/s", OverlapPolicy: schedule.OverlapQueue, Exclusive: true, MaxQueued: 9,
		Attempt: 3, MaxAttempts: 3, RetryOf: old.Key, Input: old.Input, Priority: 5,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.IsAutomaticRetry() {
		t.Error("it counts as an automatic retry")
	}
}

func TestWhatARedriveAsksFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		run   func(*schedule.RunInput)
		order func(*schedule.RedriveOrder)
		is    func(schedule.Run) bool
	}{
		{"new automatic retries", func(*schedule.RunInput) {}, func(o *schedule.RedriveOrder) { o.Renew = true }, func(r schedule.Run) bool { return r.Attempt == 3 && r.MaxAttempts == 5 }},
		{
			"a new budget of a job without a policy", func(in *schedule.RunInput) {
				in.Definition.Retry, in.Run.Queue.No, in.Queue = schedule.RetryPolicy{}, 7, &schedule.Queue{}
			},
			func(o *schedule.RedriveOrder) { o.Renew, o.JobAttempts = true, 4 }, func(r schedule.Run) bool { return r.Attempt == 3 && r.MaxAttempts == 6 },
		},
		{"none of a revision without a policy", func(in *schedule.RunInput) { in.Definition.Retry = schedule.RetryPolicy{} }, func(o *schedule.RedriveOrder) { o.Renew = true }, func(r schedule.Run) bool { return r.MaxAttempts == 3 }},
		{"allow of a schedule that allows overlaps by now", func(in *schedule.RunInput) { in.Schedule.OverlapPolicy = schedule.OverlapAllow }, nil, func(r schedule.Run) bool { return r.OverlapPolicy == schedule.OverlapAllow && !r.Exclusive }},
		{"queue instead of replace", func(in *schedule.RunInput) { in.Schedule.OverlapPolicy = schedule.OverlapReplace }, nil, func(r schedule.Run) bool { return r.OverlapPolicy == schedule.OverlapQueue && r.Exclusive }},
		{"a place behind the pages before", nil, func(o *schedule.RedriveOrder) { o.RatePerMinute, o.Before = 30, 5 }, func(r schedule.Run) bool { return r.FireAt.Equal(failedAt.Add(time.Hour + 10*time.Second)) }},
		{"now if its time has passed", nil, func(o *schedule.RedriveOrder) { o.RatePerMinute, o.Now = 30, o.Now.Add(time.Minute) }, func(r schedule.Run) bool { return r.FireAt.Equal(failedAt.Add(time.Hour + time.Minute)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, o := deadRun(), redriveOrder()
			if c.run != nil {
				c.run(&in)
			}
			if c.order != nil {
				c.order(o)
			}
			runs, _ := ledger.Redrive([]schedule.RunInput{in}, o)
			if len(runs) != 1 || !c.is(runs[0]) {
				t.Errorf("got %+v", runs)
			}
		})
	}
}

// Pages of any size give the runs the same fire times as one page.
func TestTheRateOfARedriveHoldsOverItsPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "runs")
		rate := rapid.Uint32Range(1, 60_000).Draw(t, "rate")
		var found []schedule.RunInput
		for i := range n {
			found = append(found, deadRun(func(in *schedule.RunInput) { in.Run.Key = schedule.ManualKey("s", string(rune('a'+i))) }))
		}
		var fires []time.Time
		for before := 0; before < n; {
			size := rapid.IntRange(1, n-before).Draw(t, "page")
			runs, _ := ledger.Redrive(found[before:before+size], redriveOrder(func(o *schedule.RedriveOrder) { o.RatePerMinute, o.Before = rate, before }))
			for i := range runs {
				fires = append(fires, runs[i].FireAt)
			}
			before += size
		}
		began := failedAt.Add(time.Hour)
		for i, at := range fires {
			// No minute has more than rate of them, and the i-th is not later than it must be.
			if want := float64(i) * 60 / float64(rate); at.Sub(began).Seconds() > want+1e-6 || at.Sub(began).Seconds() < want-1e-6 {
				t.Fatalf("run %d of %d fires %s after the begin, want %f s", i, n, at.Sub(began), want)
			}
		}
		if !slices.IsSortedFunc(fires, time.Time.Compare) || len(fires) != n {
			t.Fatalf("%d fire times: %v", len(fires), fires)
		}
	})
}
