package registrar_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func (l *line) queueNo() int32 {
	l.Helper()
	q, err := l.GetQueue(l.Context(), "gpu")
	if err != nil {
		l.Fatal(err)
	}
	return q.No
}

// cancelled cancels page by page, and adds up.
func (l *line) cancelled(ctx context.Context, in registrar.CancelRunsInput) (cancelled, requested int) {
	l.Helper()
	for {
		done, err := l.CancelRuns(ctx, in)
		if err != nil {
			l.Fatal(err)
		}
		cancelled, requested = cancelled+done.Cancelled, requested+done.Requested
		if done.Next == nil {
			return cancelled, requested
		}
		in.Page = *done.Next
	}
}

func TestACancelOfManyRunsNeedsAFilter(t *testing.T) {
	onQueues(t, func(l *line) {
		key := l.one()
		for _, in := range []registrar.CancelRunsInput{{}, {DryRun: true, Note: "all"}, {Filter: schedule.RunFilter{QueueNo: 1}, Note: string(make([]byte, 1025))}} {
			_, err := l.CancelRuns(l.Context(), in)
			if invalid, ok := errors.AsType[*schedule.InvalidError](err); !ok || len(invalid.Violations) != 1 {
				l.Errorf("%+v: %v", in, err)
			}
		}
		if run := l.run(key); run.Status.Terminal() {
			l.Errorf("the run is %s", run.Status)
		}
	})
}

func TestACancelOfManyRunsGoesPageByPageAndLeavesAnEventPerSchedule(t *testing.T) {
	onQueues(t, func(l *line) {
		var keys []schedule.Key
		for i := range 5 {
			keys = append(keys, l.one(withInput(fmt.Sprintf(`{"n":%d}`, i))))
			l.now = l.now.Add(time.Second)
		}
		in := registrar.CancelRunsInput{Filter: schedule.RunFilter{QueueNo: l.queueNo(), Limit: 2}, Note: "wrong", Actor: "op"}
		dry := in
		dry.DryRun = true
		if n, m := l.cancelled(l.Context(), dry); n != 5 || m != 0 {
			l.Errorf("a dry run counts %d and %d", n, m)
		}
		if run := l.run(keys[0]); run.Status.Terminal() {
			l.Fatalf("a dry run ends a run: %s", run.Status)
		}
		first, err := l.CancelRuns(l.Context(), in)
		if err != nil || first.Cancelled != 2 || len(first.Sample) != 2 || first.Sample[0].Key != keys[4] || first.Next == nil || first.Next.Key != keys[3] {
			l.Fatalf("the first page is %+v, %v", first, err)
		}
		in.Page = *first.Next
		if n, _ := l.cancelled(l.Context(), in); n != 3 {
			l.Errorf("the others are %d", n)
		}
		run := l.run(keys[0])
		if run.Status != schedule.StatusCancelled || run.Reason != schedule.ReasonCancelled {
			l.Errorf("the run is %s %s", run.Status, run.Reason)
		}
		events, err := l.Events(l.Context(), run.ScheduleID, 0, 10)
		counts := make([]int64, 0, 3)
		for _, e := range events {
			if e.Kind == schedule.EventCancelAsked && e.Note == "wrong" && e.Actor == "op" {
				counts = append(counts, e.Count)
			}
		}
		if err != nil || !slices.Equal(counts, []int64{1, 2, 2}) {
			l.Errorf("the events count %v, %v", counts, err)
		}
		in.Page = registrar.CancelPlace{}
		if n, m := l.cancelled(l.Context(), in); n+m != 0 {
			l.Errorf("a repeat cancels %d and %d", n, m)
		}
	})
}

func TestAnOwnerCancelsOnlyItsOwnRuns(t *testing.T) {
	onQueues(t, func(l *line) {
		in := gpuQueue(func(in *registrar.QueueInput) { in.Shared = true })
		if _, err := l.UpsertQueue(l.Context(), in); err != nil {
			l.Fatal(err)
		}
		hers := l.enqueue(registrar.EnqueueInput{UserID: "ada", Runs: []registrar.QueuedInput{job()}}).Keys[0]
		bob := as(l.T, "bob", auth.User)
		done, err := l.Enqueue(bob, registrar.EnqueueInput{QueueID: "gpu", Runs: []registrar.QueuedInput{job()}})
		if err != nil {
			l.Fatal(err)
		}
		of := schedule.RunFilter{QueueNo: l.queueNo()}
		if n, _ := l.cancelled(bob, registrar.CancelRunsInput{Filter: schedule.RunFilter{UserID: "ada"}}); n != 0 {
			l.Errorf("he cancels %d of hers", n)
		}
		if n, _ := l.cancelled(bob, registrar.CancelRunsInput{Filter: of}); n != 1 {
			l.Errorf("he cancels %d", n)
		}
		if mine, other := l.run(done.Keys[0]), l.run(hers); mine.Status != schedule.StatusCancelled || other.Status.Terminal() {
			l.Errorf("his is %s, hers %s", mine.Status, other.Status)
		}
	})
}

func TestAPauseEndsWhatWaitsAndARepeatTheRest(t *testing.T) {
	onQueues(t, func(l *line) {
		flying := l.one()
		if _, err := l.admits(l.Context(), schedule.AdmitRequest{QueueNo: l.queueNo(), Now: l.now, Free: 1, Lease: func(schedule.Key) time.Duration { return time.Minute }}); err != nil {
			l.Fatal(err)
		}
		waiting, delayed := l.one(), l.one(func(in *registrar.QueuedInput) { in.RunAt = noon.Add(time.Hour) })
		l.createGroup(groupInput(func(in *registrar.GroupInput) { in.Mode, in.Sealed = schedule.GroupSequential, true }))
		pause := registrar.PauseQueueInput{QueueID: "gpu", Note: "driver update", CancelWaiting: true, Actor: "op"}
		got, err := l.PauseQueue(l.Context(), pause)
		if err != nil || got.Cancelled != 4 || !got.Pause.Paused {
			l.Fatalf("the pause answers %+v, %v", got, err)
		}
		for _, key := range []schedule.Key{waiting, delayed} {
			if run := l.run(key); run.Status != schedule.StatusCancelled {
				l.Errorf("a run is %s", run.Status)
			}
		}
		if run := l.run(flying); run.Status.Terminal() || !run.CancelRequestedAt.IsZero() {
			l.Errorf("what is in flight is %+v", run)
		}
		if g, err := l.GetGroup(l.Context(), "g"); err != nil || g.State != schedule.GroupPartial {
			l.Errorf("the group is %+v, %v", g, err)
		}
		l.one() // as a run that a pause has not come to
		if got, err = l.PauseQueue(l.Context(), pause); err != nil || got.Cancelled != 1 {
			l.Errorf("a repeat answers %+v, %v", got, err)
		}
		pause.CancelWaiting = false
		l.one()
		if got, err = l.PauseQueue(l.Context(), pause); err != nil || got.Cancelled != 0 || len(l.waiting()) != 1 {
			l.Errorf("a pause alone answers %+v, %v, and %v wait", got, err, l.waiting())
		}
	})
}

func TestADeletionByForceCountsTheMembersOfGroups(t *testing.T) {
	onQueues(t, func(l *line) {
		l.one()
		for id, mode := range map[string]schedule.GroupMode{"s": schedule.GroupSequential, "p": schedule.GroupParallel} {
			l.createGroup(groupInput(func(in *registrar.GroupInput) { in.GroupID, in.Mode = id, mode }))
		}
		done, err := l.DeleteQueue(l.Context(), registrar.DeleteQueueInput{QueueID: "gpu", Force: true})
		if err != nil || done != (registrar.DeletedQueue{Cancelled: 5}) {
			l.Errorf("got %+v, %v", done, err)
		}
	})
}
