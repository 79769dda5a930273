package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

// TestAStepBackOfTheClockKeepsWhatIsUnderWayAtItsDistance has a clock that is
// set back an hour at noon.
func TestAStepBackOfTheClockKeepsWhatIsUnderWayAtItsDistance(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "carillon.db"), sqlite.Options{})
	term := lead(t, s, noon)
	step := time.Hour
	to := noon.Add(-step)

	// In flight at noon, one of them asked to cancel, and one that waits.
	started, launching, waiting := everySecond("started", noon), everySecond("launching", noon), everySecond("waiting", noon)
	waiting.OverlapPolicy = schedule.OverlapQueue
	ahead := slotOf(&waiting, noon)
	behind := ahead
	behind.Key, behind.Trigger, behind.FireAt = schedule.ManualKey("waiting", "1"), schedule.TriggerManual, noon.Add(time.Microsecond)
	runs := []schedule.Run{slotOf(&started, noon), slotOf(&launching, noon), ahead, behind}
	create(t, s, started, runs[0])
	create(t, s, launching, runs[1])
	create(t, s, waiting, ahead, behind)
	claimed := (&shard{store: s, term: term}).claim(t, behind.FireAt)
	if len(claimed.Launches) != 3 || len(claimed.Verdicts.Waits) != 1 {
		t.Fatalf("%d runs were claimed and %d wait, want 3 and 1", len(claimed.Launches), len(claimed.Verdicts.Waits))
	}
	_, err := s.Settle(t.Context(), term, noon, []schedule.Settlement{{Key: runs[0].Key, To: schedule.StatusStarted, TimeoutAt: noon.Add(10 * time.Minute), DeadlineAt: noon.Add(20 * time.Minute)}})
	must(t, err)
	_, _, err = s.ChangeRun(t.Context(), runs[0].Key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) {
		return schedule.RunChange{AskCancel: schedule.ReasonCancelled, Now: noon}, nil
	})
	must(t, err)
	d := &launching.Definition
	call := schedule.BeginRequest{
		Key: runs[1].Key, ScheduleID: "launching", ScheduledFor: noon, Trigger: schedule.TriggerSchedule, Version: d.Version,
		Grant: d.GrantUse(false), FireAt: noon, Lease: 15 * time.Second,
	}
	_, err = s.Begin(t.Context(), []schedule.BeginRequest{call}, noon)
	must(t, err)

	// Planned by the old clock, or, as the last one, already by the new.
	planned := everySecond("planned", noon)
	planned.Backlog = schedule.Backlog{From: noon.Add(-9 * time.Hour), Until: noon.Add(-8 * time.Hour), Revision: 1, At: noon.Add(20 * time.Second)}
	row := func(trigger schedule.Trigger, request string, runAt, fireAt, written time.Time) schedule.Run {
		r := slotOf(&planned, runAt)
		r.Trigger, r.FireAt, r.CreatedAt, r.UpdatedAt = trigger, fireAt, written, written
		if trigger != schedule.TriggerSchedule {
			r.Key = schedule.ManualKey("planned", request)
		}
		runs = append(runs, r)
		return r
	}
	put := noon.Add(5 * time.Second)
	queued := row(schedule.TriggerJob, "queued", noon, put, noon)
	queued.StartBy, queued.Queue = put.Add(time.Minute), schedule.QueuePlace{No: 1, State: schedule.QueueDelayed, EnqueuedAt: noon}
	queued.Enter(schedule.StatusPlanned)
	create(t, s, planned, queued,
		row(schedule.TriggerCatchup, "catchup", noon.Add(-9*time.Hour), put, noon),
		row(schedule.TriggerManual, "manual", noon, put, noon),
		row(schedule.TriggerRetry, "retry", noon, put, noon),
		row(schedule.TriggerBackfill, "backfill", noon.Add(-48*time.Hour), put, noon),
		row(schedule.TriggerSchedule, "jitter", to.Add(-time.Second), to.Add(30*time.Second), noon))
	young := row(schedule.TriggerManual, "young", to.Add(time.Second), to.Add(time.Second), to.Add(time.Second))
	err = s.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"planned"}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{{ScheduleID: "planned", Runs: []schedule.Run{young}, Now: to.Add(time.Second)}}, nil
	})
	must(t, err)

	want := make([]schedule.Run, len(runs))
	for i := range runs {
		r, err := s.GetRun(t.Context(), runs[i].Key)
		must(t, err)
		want[i] = *r
		for _, at := range []*time.Time{
			&want[i].ClaimedAt, &want[i].ClaimedUntil, &want[i].TimeoutAt, &want[i].CancelRequestedAt, &want[i].WaitingSince, &want[i].FireAt,
			&want[i].DeadlineAt, &want[i].StartBy,
		} {
			if !at.IsZero() && i < len(runs)-2 && !(at == &want[i].FireAt && want[i].Status == schedule.StatusStarted) {
				*at = at.Add(-step)
			}
		}
	}
	for pass := range 2 { // the second one comes after an error, and shifts no run again
		must(t, s.Rewind(t.Context(), noon, to))
		for i := range want {
			got, err := s.GetRun(t.Context(), want[i].Key)
			must(t, err)
			if d := cmp.Diff(want[i], *got, cmpopts.IgnoreFields(schedule.Run{}, "UpdatedAt")); d != "" {
				t.Errorf("%s run of %s (- want, + got):\n%s", want[i].Trigger, want[i].ScheduleID, d)
			}
		}
		_, request, err := s.CloseKey(t.Context(), call.Key, schedule.ReasonCancelled, to)
		must(t, err)
		if want := to.Add(15 * time.Second); !request.Lease.Until.Equal(want) {
			t.Errorf("the open call's lease lasts until %s, want %s", request.Lease.Until, want)
		}
		kept, err := s.GetSchedule(t.Context(), "planned")
		must(t, err)
		if want := to.Add(20 * time.Second); pass == 0 && !kept.Backlog.At.Equal(want) {
			t.Errorf("the backlog goes on at %s, want %s", kept.Backlog.At, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAWorkerThatDiesAfterAStepBackOfTheClockIsFound(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "carillon.db"), sqlite.Options{})
	create(t, s, everySecond("jobs", noon))
	_, err := s.ChangeQueue(t.Context(), "q", func(*schedule.Queue) (schedule.QueueChange, error) {
		d := schedule.QueueDefinition{QueueID: "q", UserID: "u", MaxInFlight: 5, Delivery: schedule.DeliveryPull, HeartbeatMS: 30_000}
		return schedule.QueueChange{After: &schedule.Queue{QueueDefinition: d, Revision: 1, CreatedAt: noon, UpdatedAt: noon}}, nil
	})
	must(t, err)
	q, err := s.GetQueue(t.Context(), "q")
	must(t, err)
	job := func(name string) schedule.Run {
		d := everySecond("jobs", noon)
		r := slotOf(&d, noon)
		r.Key, r.Trigger, r.Queue = schedule.ManualKey("jobs", name), schedule.TriggerJob, schedule.QueuePlace{No: q.No, State: schedule.QueueWaiting, EnqueuedAt: noon}
		r.Enter(schedule.StatusPlanned)
		return r
	}
	must(t, s.Enqueue(t.Context(), schedule.EnqueueRequest{QueueID: "q", UserID: "u"}, func(schedule.EnqueueFacts) (schedule.Enqueue, error) {
		return schedule.Enqueue{Runs: []schedule.Run{job("dead"), job("alive")}, Now: noon}, nil
	}))
	fetch := func(worker string, now time.Time, running ...schedule.Key) {
		req := schedule.AdmitRequest{
			QueueNo: q.No, Now: now, Free: 1, Lease: func(schedule.Key) time.Duration { return time.Second },
			Fetch: &schedule.Fetch{Worker: worker, Slots: 1, Running: running},
		}
		_, err := s.Admit(t.Context(), req)
		must(t, err)
	}
	fetch("dead", noon)
	fetch("alive", noon)
	to := noon.Add(-time.Hour)
	for range 2 { // the second one comes after an error, and moves no heartbeat by the new clock
		must(t, s.Rewind(t.Context(), noon, to))
		fetch("alive", to.Add(5*time.Second), job("dead").Key, job("alive").Key)
	}
	swept, err := s.SweepQueues(t.Context(), schedule.QueueSweep{SweepRequest: schedule.SweepRequest{Now: to.Add(31 * time.Second), Limit: 10}})
	must(t, err)
	if len(swept.Ended) != 1 || swept.Ended[0].Run.Queue.Worker != "dead" || swept.Ended[0].Run.Reason != schedule.ReasonLost {
		t.Errorf("half a minute after the step these ended: %+v", swept.Ended)
	}
}
